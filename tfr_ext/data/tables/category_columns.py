"""Converts columns of categories, texts and the context in data frames to ids."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tfr_ext.core import messages
from tfr_ext.data.features import MOST_VALUES, TEXT_WORDS, Feature, FeatureSpec
from tfr_ext.data.fingerprints import (
    FILL,
    MISSING,
    of_texts,
    of_values,
)
from tfr_ext.data.tables import row_arrays
from tfr_ext.data.tables.row_arrays import RowError

AUTO = "auto"
WHOLE = re.compile(rb"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
"""A whole number as text: 7 or 7.0, not 007."""
# From so many rows on, a text that differs in most rows is no category.
_MANY_ROWS = 1000
_MOST_WORDS = 3
_WAYS_OUT = (
    "Leave the column out, convert it to numbers, or name it in `categories` if it is "
    "one."
)


def found(frame: Any, taken: Collection[str] = ()) -> list[str]:
    """Returns the columns of the types category and string, in the order of the frame.

    Args:
        frame: a pandas.DataFrame.
        taken: columns that are something else.

    Raises:
        ValueError: If such a column looks like numbers, sentences or names that hardly
            occur twice.
    """
    import pandas

    names = []
    for name in frame.columns:
        series = frame[name]
        if name in taken or pandas.api.types.is_numeric_dtype(series.dtype):
            continue
        kind = pandas.api.types.infer_dtype(series, skipna=True)
        if isinstance(series.dtype, pandas.CategoricalDtype):
            names.append(name)
        elif kind == "string" or _has_lists(series):
            _check_texts(_exploded(series).dropna(), len(series))
            names.append(name)
    return names


def spec_of(
    frame: Any,
    categories: Sequence[str] | str,
    texts: Sequence[str],
    context: Sequence[str],
    text_words: int,
) -> FeatureSpec | None:
    """Returns what all columns of a frame are; None if they are numbers of items.

    Args:
        frame: a pandas.DataFrame.
        categories: the columns of categories, or 'auto'.
        texts: those of texts.
        context: those of any kind that are of the list.
        text_words: how many words of a text are used.

    Raises:
        ValueError: If a column has two uses, or is no category.
    """
    if categories == AUTO:
        categories = found(frame, texts)
    named = [*categories, *texts]
    for name in named:
        if named.count(name) > 1:
            raise ValueError(f"Column {name!r} has two uses.")
    if not (named or context):
        return None
    numbers = [name for name in frame.columns if name not in named]
    return features(frame, numbers, categories, texts, context, text_words)


def _check_texts(texts: Any, rows: int) -> None:
    """Checks that texts are the values of a category."""
    if not len(texts):
        return
    import pandas

    values = texts.astype(str)
    as_numbers = pandas.to_numeric(values, errors="coerce").notna().mean()
    words = float(values.str.split().str.len().median())
    different = values.nunique()
    if as_numbers > 0.9:
        problem = f"{as_numbers:.0%} of its values are numbers as texts"
    elif words > _MOST_WORDS:
        problem = f"its median value has {words:g} words"
    elif rows > _MANY_ROWS and different > len(values) / 2:
        problem = f"it has {different:,} different values in {rows:,} rows"
    else:
        return
    raise ValueError(f"Column {texts.name!r} is no category: {problem}. {_WAYS_OUT}")


def features(
    frame: Any,
    numbers: Sequence[str],
    categories: Sequence[str],
    texts: Sequence[str] = (),
    context: Collection[str] = (),
    text_words: int = TEXT_WORDS,
) -> FeatureSpec:
    """Returns what some columns are, by their values.

    Args:
        frame: a pandas.DataFrame.
        numbers: the columns of numbers.
        categories: those of categories.
        texts: those of texts.
        context: those of any kind that are of the list.
        text_words: how many words of a text are used.

    Raises:
        ValueError: If the values of a category are numbers that are not whole.
    """
    known = [*numbers, *categories, *texts]
    unknown = [name for name in context if name not in known]
    if unknown:
        raise ValueError(
            f"Column {unknown[0]!r} is named as context, but is no feature: it is "
            "neither of numbers nor named as a category or text. The features are: "
            f"{', '.join(known)}."
        )
    all_features = [Feature(name, context=name in context) for name in numbers]
    for name in categories:
        width = MOST_VALUES if _has_lists(frame[name]) else 1
        try:
            values = _exploded(frame[name]).dropna().unique()
        except TypeError:  # A value that is no name; `_ids` tells its row.
            values = ()
        is_integer = len(values) > 0 and not any(
            isinstance(value, (str, bytes, bool, np.bool_)) for value in values
        )
        all_features.append(
            Feature(name, "category", name in context, width, is_integer)
        )
    for name in texts:
        all_features.append(Feature(name, "text", name in context, text_words))
    return FeatureSpec(tuple(all_features))


def fields(
    frame: Any, spec: FeatureSpec, row_splits: np.ndarray, query_ids: Sequence[str]
) -> dict[str, Any]:
    """Returns the fields of `RankingLists` that are about categories.

    Args:
        frame: a pandas.DataFrame.
        spec: what its columns are.
        row_splits: see `RankingLists`.
        query_ids: see `RankingLists`.

    Raises:
        RowError: If a value is not of the kind of its column, or a column of the
            context has two values in a list.
    """
    for feature in spec.numbers:
        if feature.context:
            values = frame[feature.name].to_numpy(np.float64, na_value=np.nan)
            _check_context(frame, feature.name, values, row_splits, query_ids)
    if spec.is_numeric:
        return {"spec": spec}
    parts: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for feature in spec.encoded():
        make = _word_ids if feature.kind == "text" else _ids
        ids = make(frame[feature.name], feature)
        if feature.context:
            _check_context(frame, feature.name, ids, row_splits, query_ids)
            ids = ids[row_splits[:-1]]
        parts[feature.context].append(ids)
    joined = [np.concatenate(x, axis=1) if x else None for x in parts.values()]
    return {"spec": spec, "ids": joined[0], "context_ids": joined[1]}


def _check_context(
    frame: Any,
    name: str,
    values: np.ndarray,
    row_splits: np.ndarray,
    query_ids: Sequence[str],
) -> None:
    """Checks that all rows of a list have one value."""
    lengths = np.diff(row_splits)
    first = np.repeat(row_splits[:-1], lengths)
    same = (values == values[first]) | ((values != values) & (values != values)[first])
    wrong = np.flatnonzero(~same.reshape(len(values), -1).all(axis=1))
    if len(wrong):
        row = int(wrong[0])
        query = query_ids[int(np.searchsorted(row_splits, row, "right")) - 1]
        given = frame[name].iloc[[first[row], row]].tolist()
        raise RowError(
            f"column {name!r} is {given[1]!r} and {given[0]!r} in the list of query "
            f"{query!r}, expected one value a list, as it is named as context",
            row,
        )


def _ids(series: Any, feature: Feature) -> np.ndarray:
    """Returns the ids of a column, `[rows, width]`."""
    import pandas

    count, width = len(series), feature.width
    if not feature.is_integer and pandas.api.types.is_any_real_numeric_dtype(series):
        for row in np.flatnonzero(series.notna())[:1]:
            problem = f"column {series.name!r} is {series.iloc[row]}, expected a text"
            raise RowError(f"{problem}, as in training", int(row))
    values = _exploded(series)
    rows = values.index.to_numpy()
    try:
        codes, distinct = pandas.factorize(values)
        texts = [_text(value, feature) for value in distinct]
    except (TypeError, ValueError):  # Again, to find the row.
        for row, value in zip(rows, values):
            try:
                if not row_arrays.is_missing(value):
                    _text(value, feature)
            except ValueError as error:
                raise RowError(f"column {series.name!r} is {error}", int(row)) from None
        raise
    known = np.append(of_values(texts), MISSING)  # The code of a missing value is -1.
    ids = known[codes]
    if width == 1:
        several = np.flatnonzero(rows[1:] == rows[:-1])
        if len(several):
            raise RowError(
                f"column {series.name!r} has several values, expected one, as in "
                "training",
                int(rows[several[0]]),
            )
        return ids[:, np.newaxis]
    rows, ids = rows[ids != MISSING], ids[ids != MISSING]
    numbers = np.bincount(rows, minlength=count)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    cut = int((numbers > width).sum())
    if cut:
        messages.warn(
            f"Column {series.name!r}: {cut:,} of {count:,} rows have more than {width} "
            f"values; the first {width} are used."
        )
    found = np.full([count, width], FILL, np.int64)
    found[rows[place < width], place[place < width]] = ids[place < width]
    found[numbers == 0, 0] = MISSING
    return found


def _word_ids(series: Any, feature: Feature) -> np.ndarray:
    """Returns the ids of the words of a column, `[rows, width]`."""
    import pandas

    texts = np.empty(len(series), object)
    for row, value in enumerate(series):
        tokens = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        texts[row] = b" ".join(_token(x, series.name, row) for x in tokens)
    codes, distinct = pandas.factorize(texts)
    found, lengths, invalid = of_texts(distinct, feature.width)
    for wrong, problem in (
        (lengths > feature.width, f"more than {feature.width} words; the first ones"),
        (invalid, "bytes that are not UTF-8; the words around them"),
    ):
        count = int(wrong[codes].sum())
        if count:
            messages.warn(
                f"Column {series.name!r}: {count:,} of {len(texts):,} texts have "
                f"{problem} are used."
            )
    return found[codes]


def _token(value: Any, column: str, row: int) -> bytes:
    """Returns the bytes of a text, or of a number as files have it."""
    if isinstance(value, bytes):
        return value
    if row_arrays.is_missing(value):
        return b""
    if not isinstance(value, (str, Number)):
        raise RowError(f"column {column!r} is {value!r}, expected a text", row)
    return str(value).encode("utf-8", "surrogatepass")


def _text(value: Any, feature: Feature) -> bytes:
    """Returns the bytes of a value that stand for it.

    Raises:
        ValueError: If the feature is not of such values.
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if not isinstance(value, (str, bytes, int, np.integer, np.bool_)):
        raise ValueError(f"{value!r}, expected a text or a whole number")
    if isinstance(value, bytes):
        text = value
    else:
        text = str(value).encode("utf-8", "surrogatepass")
    if feature.is_integer and text:
        whole = WHOLE.fullmatch(text)
        if whole is None:
            raise ValueError(f"{value!r}, expected a whole number")
        text = b"%d" % int(whole[1])
    return text


def _has_lists(series: Any) -> bool:
    """Returns whether cells hold several values."""
    import pandas

    if not pandas.api.types.infer_dtype(series, skipna=True).startswith("mixed"):
        return False
    return any(isinstance(value, (list, tuple, set, np.ndarray)) for value in series)


def _exploded(series: Any) -> Any:
    """Returns a value per row, whose index is the row from 0."""
    series = series.reset_index(drop=True)
    if not _has_lists(series):
        return series
    lists = series.astype(object).map(_as_list)
    return lists.explode()


def _as_list(cell: Any) -> Any:
    return list(cell) if isinstance(cell, (set, np.ndarray)) else cell
