"""Scorers, the layers they use, and the models built from them."""

from tfr_ext.models.attention_scorers import (
    AttentionScorer,
    DASALCScorer,
    KLTransformerScorer,
    TransformerScorer,
)
from tfr_ext.models.batch_normalization import (
    ItemBatchNormalization,
    NormalizedDense,
)
from tfr_ext.models.categories import Category, Vocabulary, vocabularies
from tfr_ext.models.combination import (
    COMBINATIONS,
    CombinedScores,
    combined_model,
)
from tfr_ext.models.expected_grade import (
    ExpectedGrade,
    ExpectedGradeScorer,
    with_expected_grade,
)
from tfr_ext.models.layers import (
    CompactItems,
    FeatureNoise,
    FlattenItems,
    ResumableDropout,
    ScatterScores,
)
from tfr_ext.models.network import (
    ACTIVATIONS,
    OUTPUT_ACTIVATIONS,
    MLPScorer,
    NetworkScorer,
)
from tfr_ext.models.ranking_model import (
    RankingModel,
    RankingModelBuilder,
    model_builder,
)
from tfr_ext.models.scorers import CompactScorer, ItemScorer
from tfr_ext.models.self_attention import SelfAttention
from tfr_ext.models.texts import Embeddings, Texts, encoded_inputs
from tfr_ext.models.transforms.feature_transform import Concatenated, FeatureTransform
from tfr_ext.models.transforms.fitted_transforms import FillMissing, Quantile, Standard
from tfr_ext.models.transforms.transform_forms import (
    FeatureTransforms,
    check_feature_transforms,
    feature_transforms,
)
from tfr_ext.models.transforms.unfitted_transforms import (
    Clip,
    Log1p,
    QueryMinMax,
    QueryRank,
    QueryStandard,
    Raw,
)

__all__ = [
    "ACTIVATIONS",
    "COMBINATIONS",
    "OUTPUT_ACTIVATIONS",
    "AttentionScorer",
    "Category",
    "Clip",
    "CombinedScores",
    "CompactItems",
    "CompactScorer",
    "Concatenated",
    "DASALCScorer",
    "ExpectedGrade",
    "ExpectedGradeScorer",
    "FeatureNoise",
    "FeatureTransform",
    "FeatureTransforms",
    "Embeddings",
    "FillMissing",
    "FlattenItems",
    "ItemBatchNormalization",
    "ItemScorer",
    "KLTransformerScorer",
    "Log1p",
    "MLPScorer",
    "NetworkScorer",
    "NormalizedDense",
    "Quantile",
    "QueryMinMax",
    "QueryRank",
    "QueryStandard",
    "RankingModel",
    "RankingModelBuilder",
    "Raw",
    "ResumableDropout",
    "ScatterScores",
    "SelfAttention",
    "Standard",
    "Texts",
    "TransformerScorer",
    "Vocabulary",
    "check_feature_transforms",
    "combined_model",
    "encoded_inputs",
    "feature_transforms",
    "model_builder",
    "vocabularies",
    "with_expected_grade",
]
