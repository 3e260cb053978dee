"""Reads lists that need no labels, a few at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tfr_ext.core.settings import given
from tfr_ext.data.elwc.diagnosis import ElwcSchema
from tfr_ext.data.elwc.reading import iter_elwc
from tfr_ext.data.letor.reading import iter_letor
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import table_files
from tfr_ext.data.tables.frames import Columns
from tfr_ext.training.data_config import KEPT_MISSING
from tfr_ext.training.ranking.list_scorer import ListScorer
from tfr_ext.training.ranking.rank_config import RankConfig
from tfr_ext.training.sources import table_source

# Size of the features, in pandas, that are read from a table at a time.
_TABLE_BYTES = 8 << 20

_Pieces = Iterator[RankingLists]


def read(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    """Reads lists piece by piece; their labels have no meaning.

    Args:
        config: gives the format of the files, and the names in them.
        files: the files.
        scorer: the model that will score them.

    Raises:
        DataFormatError: if a file has another format, or lists of another width.
        ValueError: if nothing says which columns of a table are the features.
    """
    return _READERS[config.input_format](config, files, scorer)


def keeps_missing(config: RankConfig, scorer: ListScorer) -> bool:
    """Returns whether missing features are NaN, for the model to fill.

    Args:
        config: says what becomes of missing features.
        scorer: the model; an export also knows what it was trained with.
    """
    if config.missing is None:
        return getattr(scorer, "takes_missing", False)
    return config.missing in KEPT_MISSING and getattr(scorer, "takes_missing", True)


def _missing_value(config: RankConfig, scorer: ListScorer) -> float:
    if keeps_missing(config, scorer):
        return math.nan
    return 0.0 if config.missing in (None, *KEPT_MISSING) else float(config.missing)


def _text(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    value = _missing_value(config, scorer)
    return iter_letor(files, scorer.num_features, value, labelled=False)


def _elwc(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    schema = ElwcSchema(
        config.elwc_features,
        config.elwc_context_features,
        None,
        config.elwc_query_id,
        config.elwc_doc_id,
        label_distribution="",
        missing_value=_missing_value(config, scorer),
        columns=tuple(scorer.feature_names or ()),
    )
    return iter_elwc(files, scorer.num_features, schema, config.batch_size)


def _table(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    features = config.feature_columns or scorer.feature_names
    if not features:
        raise ValueError(
            f"{_unnamed(config)} does not know the names of its {scorer.num_features} "
            "features. Name their columns with `feature_columns`, in the order of the "
            "training."
        )
    if len(features) != scorer.num_features:
        raise ValueError(
            f"{given('feature_columns', tuple(features))} names {len(features)} "
            f"columns, but the model takes {scorer.num_features} features."
        )
    columns = Columns(
        None,
        config.query_column,
        features,
        doc_id=config.doc_id_column or None,
        missing=keeps_missing(config, scorer),
    )
    rows = max(1, _TABLE_BYTES // (8 * len(features)))
    return table_files.read_files(
        files, table_source.with_names(columns, files[0]), rows
    )


def _unnamed(config: RankConfig) -> str:
    """Returns why no names are known, as the start of a sentence."""
    if config.export is None:
        return "A server"
    return "The model was not trained on a table, and"


_READERS: dict[str, Callable[[RankConfig, Sequence[str], ListScorer], _Pieces]] = {
    "text": _text,
    "elwc": _elwc,
    "table": _table,
}
