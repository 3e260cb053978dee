"""Scorers for TensorFlow Ranking's model builders, and the layers they need."""

from tfr_ext.models.grades import (
    ExpectedGrade,
    ExpectedGradeScorer,
    with_expected_grade,
)
from tfr_ext.models.layers import (
    CompactItems,
    FlattenItems,
    ItemBatchNormalization,
    ResumableDropout,
    ScatterScores,
)
from tfr_ext.models.scorers import (
    CompactScorer,
    MLPScorer,
    RankingModel,
    feature_spec,
    model_builder,
)

__all__ = [
    "CompactItems",
    "CompactScorer",
    "ExpectedGrade",
    "ExpectedGradeScorer",
    "FlattenItems",
    "ItemBatchNormalization",
    "MLPScorer",
    "RankingModel",
    "ResumableDropout",
    "ScatterScores",
    "feature_spec",
    "model_builder",
    "with_expected_grade",
]
