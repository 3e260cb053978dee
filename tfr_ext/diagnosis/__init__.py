"""What goes wrong in training, told in numbers and in words."""

from tfr_ext.diagnosis.labels import label_warnings
from tfr_ext.diagnosis.not_finite import StopAtBadLoss, cause
from tfr_ext.diagnosis.training import LossWatch, TrainingDiagnosis

__all__ = ["LossWatch", "StopAtBadLoss", "TrainingDiagnosis", "cause", "label_warnings"]
