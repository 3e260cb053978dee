"""Checks of the settings of data that commands share."""

from __future__ import annotations

from collections.abc import Sequence

from tfr_ext.core.decimals import is_finite
from tfr_ext.core.settings import Settings, given, places

AUTO = "auto"
# The settings of `missing` with which missing features are NaN in lists.
KEPT_MISSING = (AUTO, "indicator", "mean")

# The settings that name columns of tables, and those that name features of protos too.
ELWC_COLUMNS = ("weight_column", "category_columns", "text_columns", "context_columns")
COLUMNS = (
    *("label_column", "query_column", "feature_columns", "doc_id_column"),
    *("embedding_columns", *ELWC_COLUMNS),
)


def check_missing(missing: str) -> None:
    """Checks what is to become of missing features."""
    try:
        fine = missing in KEPT_MISSING or is_finite(float(missing))
    except (OverflowError, ValueError):
        fine = False
    if not fine:
        raise ValueError(
            "`missing` must be 'auto', 'indicator', 'mean' or a finite number. "
            f"Received: {missing!r}."
        )


def check_kinds(
    settings: Settings, texts: Sequence[str] | None, embeddings: Sequence[str] | None
) -> None:
    """Checks that settings of texts and embeddings are given with such columns only."""
    for kind, name, columns in (
        ("texts", "text_words", texts),
        ("embeddings", "embedding_inputs", embeddings),
    ):
        value = getattr(settings, name)
        if value is not None and not columns:
            raise ValueError(
                f"{given(name, value)} has no meaning without columns of {kind}."
            )


def check_columns(settings: Settings, dataset: str) -> None:
    """Checks that columns are named only for data that has columns."""
    for place in places(type(settings)):
        name, value = place.name, place.value(settings)
        if dataset == "table" and name == "query_column" and not value:
            raise ValueError(f"`{name}` must name a column.")
        has_meaning = dataset == "table" or (dataset == "elwc" and name in ELWC_COLUMNS)
        if name in COLUMNS and value != place.default and not has_meaning:
            raise ValueError(
                f"{given(name, value)} has no meaning with "
                f"{given('dataset', dataset)}, which has no such columns."
            )
