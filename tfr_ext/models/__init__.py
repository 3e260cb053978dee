"""Scorers for TensorFlow Ranking's model builders, and the layers they need."""

from tfr_ext.models.layers import CompactItems, ScatterScores
from tfr_ext.models.scorers import (
    CompactScorer,
    MLPScorer,
    feature_spec,
    model_builder,
)

__all__ = [
    "CompactItems",
    "CompactScorer",
    "MLPScorer",
    "ScatterScores",
    "feature_spec",
    "model_builder",
]
