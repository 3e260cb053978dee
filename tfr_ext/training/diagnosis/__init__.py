"""Diagnoses training: figures in the logs, and warnings."""

from tfr_ext.training.diagnosis.callbacks import LossWatch, TrainingDiagnosis
from tfr_ext.training.diagnosis.not_finite import StopAtBadLoss, cause
from tfr_ext.training.diagnosis.suspect_labels import label_warnings

__all__ = ["LossWatch", "StopAtBadLoss", "TrainingDiagnosis", "cause", "label_warnings"]
