"""Diagnoses training: figures in the logs, and warnings."""

from tfr_ext.training.diagnosis.callbacks import LossWatch, TrainingDiagnosis
from tfr_ext.training.diagnosis.label_fit import label_warnings
from tfr_ext.training.diagnosis.not_finite import StopAtBadLoss, cause

__all__ = ["LossWatch", "StopAtBadLoss", "TrainingDiagnosis", "cause", "label_warnings"]
