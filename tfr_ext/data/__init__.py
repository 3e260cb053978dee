"""Ranking data: readers, synthetic lists and batches."""

from tfr_ext.data.batches.batching import (
    FEATURES,
    MASK,
    MAX_PADDING,
    BatchedLists,
    LabelTransform,
    padded_batch,
    score_lists,
)
from tfr_ext.data.batches.streamed_batches import StreamedBatches
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.elwc.proto_features import (
    ElwcFeatures,
    elwc_parsing,
    measure_features,
)
from tfr_ext.data.elwc.reading import ElwcReader, ElwcSchema, iter_elwc, read_elwc
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.labels import (
    BinomialLabels,
    binary_labels,
    expected_labels,
    with_label_distributions,
)
from tfr_ext.data.letor.reading import iter_letor, read_letor
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.synthetic import synthetic_lists
from tfr_ext.data.tables.table_files import read_table
from tfr_ext.data.truncation import truncate

__all__ = [
    "FEATURES",
    "MASK",
    "MAX_PADDING",
    "BatchedLists",
    "BinomialLabels",
    "DataFormatError",
    "ElwcFeatures",
    "ElwcReader",
    "ElwcSchema",
    "Feature",
    "FeatureSpec",
    "LabelTransform",
    "RankingLists",
    "StreamedBatches",
    "StreamedLists",
    "binary_labels",
    "concatenate",
    "elwc_parsing",
    "expected_labels",
    "iter_elwc",
    "iter_letor",
    "measure_features",
    "padded_batch",
    "read_elwc",
    "read_letor",
    "read_table",
    "score_lists",
    "synthetic_lists",
    "truncate",
    "with_label_distributions",
]
