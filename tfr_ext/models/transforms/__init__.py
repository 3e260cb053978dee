"""Feature transforms inside the model, which trains and serves on raw features.

A transform is a Keras layer of `(features, mask)`, and `FeatureTransforms` applies
several in turn. It is called like the preprocessors of TensorFlow Ranking, so it can
also be used in a `tfr.keras.model.ModelBuilder`.
"""

from tfr_ext.models.transforms.concatenated import Concatenated
from tfr_ext.models.transforms.feature_noise import FeatureNoise
from tfr_ext.models.transforms.feature_transform import FeatureTransform
from tfr_ext.models.transforms.fitted_transforms import Quantile, Standard
from tfr_ext.models.transforms.item_transforms import Clip, Log1p, Raw
from tfr_ext.models.transforms.missing_features import FillMissing
from tfr_ext.models.transforms.query_transforms import (
    QueryMinMax,
    QueryRank,
    QueryStandard,
)
from tfr_ext.models.transforms.transform_forms import (
    FeatureTransforms,
    check_feature_transforms,
    feature_transforms,
    looks_across_lists,
)
from tfr_ext.models.transforms.transform_grammar import FORMS

__all__ = [
    "FORMS",
    "Clip",
    "Concatenated",
    "FeatureNoise",
    "FeatureTransform",
    "FeatureTransforms",
    "FillMissing",
    "Log1p",
    "QueryMinMax",
    "QueryRank",
    "QueryStandard",
    "Quantile",
    "Raw",
    "Standard",
    "check_feature_transforms",
    "feature_transforms",
    "looks_across_lists",
]
