"""Converts columns of categories, texts and the context in data frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tfr_ext.core import messages
from tfr_ext.data.features import MOST_VALUES, TEXT_WORDS, Feature, FeatureSpec
from tfr_ext.data.fingerprints import FILL, MISSING, of_texts, of_values
from tfr_ext.data.tables import row_arrays
from tfr_ext.data.tables.row_arrays import RowError

AUTO = "auto"
WHOLE = re.compile(rb"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
"""A whole number as text: 7 or 7.0, not 007."""
_NAMES = (str, bytes, int, np.integer, np.bool_)
# From so many rows on, a text that differs in most rows is no category.
_MANY_ROWS = 1000
_MOST_WORDS = 3
_MOST_NUMBERS = 0.9
_WAYS_OUT = (
    "Leave the column out, convert it to numbers, or name it in `categories` if it is "
    "one."
)


def is_auto(categories: Any) -> bool:
    """Returns whether the columns are to be found by their types."""
    return isinstance(categories, str) and categories == AUTO


def found(frame: Any, taken: Collection[str] = ()) -> list[str]:
    """Returns the columns of the types category and string, but for those taken."""
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
            cells = () if kind == "string" else series.dropna()
            first: Any = next((x for x in cells if np.ndim(x)), ())
            values = _exploded(series).dropna()
            texts = values.astype(str)
            as_numbers = pandas.to_numeric(texts, errors="coerce").notna().mean()
            if any(isinstance(x, (float, np.floating)) for x in first) or (
                kind != "string" and as_numbers > _MOST_NUMBERS
            ):
                raise ValueError(
                    f"Column {name!r} has lists of numbers: name it in `embeddings` if "
                    "it is one, in `categories` if they are names, or leave it out."
                )
            if len(values):
                _check_texts(texts, len(series), as_numbers)
            names.append(name)
    return names


def spec_of(
    frame: Any,
    categories: Sequence[str] | str,
    texts: Sequence[str],
    embeddings: Sequence[str],
    *others: Any,
) -> FeatureSpec | None:
    """Returns what all columns of a frame are; None if they are numbers of items.

    `categories` may be 'auto', and `others` are the last arguments of `features`.
    """
    if is_auto(categories):
        categories = found(frame, [*texts, *embeddings])
    named = [*categories, *texts, *embeddings]
    for name in named:
        if named.count(name) > 1:
            raise ValueError(f"Column {name!r} has two uses.")
    if not (named or others[0]):
        return None
    numbers = [name for name in frame.columns if name not in named]
    return features(frame, numbers, categories, texts, embeddings, *others)


def _check_texts(texts: Any, rows: int, as_numbers: float) -> None:
    """Checks that texts, a share of which are numbers, are values of a category."""
    words = float(texts.str.split().str.len().median())
    different = texts.nunique()
    if as_numbers > _MOST_NUMBERS:
        problem = f"{as_numbers:.0%} of its values are numbers as texts"
    elif words > _MOST_WORDS:
        problem = f"its median value has {words:g} words"
    elif rows > _MANY_ROWS and different > len(texts) / 2:
        problem = f"it has {different:,} different values in {rows:,} rows"
    else:
        return
    raise ValueError(f"Column {texts.name!r} is no category: {problem}. {_WAYS_OUT}")


def features(
    frame: Any,
    numbers: Sequence[str],
    categories: Sequence[str],
    texts: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    context: Collection[str] = (),
    text_words: int = TEXT_WORDS,
    embedding_inputs: bool = False,
) -> FeatureSpec:
    """Returns what some columns are, by their values; see `frames.Columns`."""
    import pandas

    known = [*numbers, *categories, *texts, *embeddings]
    unknown = [name for name in context if name not in known]
    if unknown:
        raise ValueError(
            f"Column {unknown[0]!r} is named as context, but is no feature: it is "
            "neither of numbers nor named as a category, text or embedding. The "
            "features are: "
            f"{', '.join(known)}."
        )
    all_features = [Feature(name, context=name in context) for name in numbers]
    for name in categories:
        width = MOST_VALUES if _has_lists(frame[name]) else 1
        try:
            values = pandas.unique(_cells(_exploded(frame[name]).dropna()))
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
    for name in embeddings:
        first = next((x for x in frame[name] if not row_arrays.is_missing(x)), None)
        several = isinstance(first, (list, tuple, np.ndarray))
        width = np.size(np.asarray(first, object)) if several else 0
        if not width:
            raise ValueError(
                f"Column {name!r} is no embedding: its first value is {first!r}, "
                "expected a list of numbers, as a frame, Parquet and JSON lines have; "
                "of several files, the first needs one."
            )
        one = Feature(
            *(name, "embedding", name in context, width), as_input=embedding_inputs
        )
        all_features.append(one)
    spec = FeatureSpec(tuple(all_features))
    compared = {x.name for pair in spec.pairs("embedding") for x in pair}
    for one in spec.embeddings:
        if one.name not in compared and not embedding_inputs:
            of = "items" if one.context else "the context"
            raise ValueError(
                f"Embedding {one.name!r} says nothing: there is none of {of} with its "
                f"{one.width} numbers to be compared with. Set `embedding_inputs`, and "
                "the model takes the numbers themselves."
            )
    return spec


def fields(frame: Any, spec: FeatureSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `RankingLists` that are about what is no number.

    `given` has the other fields; the embeddings are put into its features, behind the
    numbers.
    """
    lists = given["row_splits"], given["query_ids"]
    for feature in spec.numbers:
        if feature.context:
            values = frame[feature.name].to_numpy(np.float64, na_value=np.nan)
            _check_context(frame, feature.name, values, *lists)
    for feature, place in spec.slices():
        values = given["features"][:, place] = _embedding(frame[feature.name], feature)
        if feature.context:
            _check_context(frame, feature.name, values, *lists)
    parts: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for feature in spec.encoded():
        make = _word_ids if feature.kind == "text" else _ids
        used = given["row_splits"][:-1] if feature.context else slice(None)
        ids = make(frame[feature.name], feature, used)
        if feature.context:
            _check_context(frame, feature.name, ids, *lists)
        parts[feature.context].append(ids[used])
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
    wrong = np.flatnonzero(~same.all(axis=tuple(range(1, same.ndim))))
    if len(wrong):
        row = int(wrong[0])
        query = query_ids[int(np.searchsorted(row_splits, row, "right")) - 1]
        given = map(row_arrays.shown, frame[name].iloc[[row, first[row]]].tolist())
        raise RowError(
            f"column {name!r} is {' and '.join(given)} in the list of query "
            f"{query!r}, expected one value a list, as it is named as context",
            row,
        )


def _embedding(series: Any, feature: Feature) -> np.ndarray:
    """Returns the numbers of an embedding, 0 where it is missing."""
    width, name = feature.width, feature.name
    found = np.zeros([len(series), width], np.float32)
    for row, value in enumerate(series):
        if row_arrays.is_missing(value):
            continue
        try:
            vector = _vector(value)
        except (OverflowError, TypeError, ValueError):
            vector = np.zeros([], np.float32)
        if vector.shape != (width,) or not np.isfinite(vector).all():
            expected = f"expected a list of {width} finite numbers"
            raise RowError(
                f"column {name!r} is {row_arrays.shown(value)}, {expected}", row
            )
        found[row] = vector
    return found


def _vector(value: Any) -> np.ndarray:
    """Returns numbers as float32; a ValueError or TypeError if any is none."""
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        kinds = {*map(type, found.flat)}
        if any(issubclass(kind, row_arrays.NOT_NUMBERS) for kind in kinds):
            raise ValueError
        found = found.astype(np.float64)
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def _ids(series: Any, feature: Feature, used: Any) -> np.ndarray:
    """Returns the ids of a column, `[rows, width]`; warnings count the rows used."""
    import pandas

    count, width = len(series), feature.width
    if not feature.is_integer and pandas.api.types.is_any_real_numeric_dtype(series):
        for row in np.flatnonzero(series.notna())[:1]:
            problem = f"column {series.name!r} is {series.iloc[row]}, expected a text"
            raise RowError(f"{problem}, as in training", int(row))
    values = _exploded(series)
    rows = values.index.to_numpy()
    try:
        codes, distinct = pandas.factorize(_cells(values))
        texts = [_text(value, feature) for value in distinct]
    except (TypeError, ValueError):  # Again, to find the row.
        for row, value in zip(rows, _cells(values)):
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
    cut = numbers[used] > width
    if cut.any():
        messages.warn(
            f"Column {series.name!r}: {cut.sum():,} of {len(cut):,} cells have more "
            f"than {width} values; the first {width} are used."
        )
    found = np.full([count, width], FILL, np.int64)
    found[rows[place < width], place[place < width]] = ids[place < width]
    found[numbers == 0, 0] = MISSING
    return found


def _word_ids(series: Any, feature: Feature, used: Any) -> np.ndarray:
    """Returns the ids of the words of a column, `[rows, width]`; see `_ids`."""
    import pandas

    texts = np.empty(len(series), object)
    for row, value in enumerate(_cells(series)):
        tokens = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        texts[row] = b" ".join(_token(x, series.name, row) for x in tokens)
    codes, distinct = pandas.factorize(texts)
    found, lengths, invalid = of_texts(distinct, feature.width)
    for wrong, problem in (
        (lengths > feature.width, f"more than {feature.width} words; the first ones"),
        (invalid, "bytes that are not UTF-8; the words around them"),
    ):
        has_it = wrong[codes[used]]
        if has_it.any():
            messages.warn(
                f"Column {series.name!r}: {has_it.sum():,} of {len(has_it):,} "
                f"texts have {problem} are used."
            )
    return found[codes]


def _cells(series: Any) -> Any:
    """Returns the values; of float32 as such, which as Python's have more digits.

    Truth values among others become texts, as True equals 1.
    """
    import pandas

    if pandas.api.types.infer_dtype(series, skipna=True).startswith("mixed"):
        cells = [str(x) if isinstance(x, (bool, np.bool_)) else x for x in series]
        return pandas.Series(cells, series.index, object)
    return series.to_numpy() if series.dtype.kind == "f" else series


def _token(value: Any, column: str, row: int) -> bytes:
    """Returns the bytes of a text, or of a number as files have it."""
    if isinstance(value, bytes):
        return value
    if row_arrays.is_missing(value):
        return b""
    if not isinstance(value, (str, Number)) or isinstance(value, np.timedelta64):
        raise RowError(f"column {column!r} is {value!r}, expected a text", row)
    return str(value).encode("utf-8", "surrogatepass")


def _text(value: Any, feature: Feature) -> bytes:
    """Returns the bytes of a value that stand for it."""
    value = row_arrays.exact(value)
    if not isinstance(value, _NAMES) or isinstance(value, np.timedelta64):
        value = row_arrays.shown(value)
        raise ValueError(f"{value}, expected a text or a whole number")
    text = value
    if not isinstance(text, bytes):
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
    kinds = (list, tuple, set, frozenset, np.ndarray)
    return any(isinstance(value, kinds) for value in series)


def _exploded(series: Any) -> Any:
    """Returns a value per row, whose index is the row from 0."""
    series = series.reset_index(drop=True)
    if not _has_lists(series):
        return series
    lists = series.astype(object).map(_as_list)
    return lists.explode()


def _as_list(cell: Any) -> Any:
    return list(cell) if isinstance(cell, (set, frozenset, np.ndarray)) else cell
