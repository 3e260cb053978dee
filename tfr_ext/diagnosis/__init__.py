"""What goes wrong in training, told in numbers and in words."""

from tfr_ext.diagnosis.labels import label_warnings
from tfr_ext.diagnosis.not_finite import cause
from tfr_ext.diagnosis.training import TrainingDiagnosis

__all__ = ["TrainingDiagnosis", "cause", "label_warnings"]
