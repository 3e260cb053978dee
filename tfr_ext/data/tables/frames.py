"""Converts data frames to arrays, by the meaning of their columns."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from tfr_ext.core import messages
from tfr_ext.data.features import TEXT_WORDS, FeatureSpec
from tfr_ext.data.tables import row_arrays
from tfr_ext.data.tables.row_arrays import RowError

# What `pandas.api.types.infer_dtype` calls values that are all numbers.
_NUMBERS = ("boolean", "decimal", "floating", "integer", "mixed-integer-float")
_LIKE_A_NUMBER = re.compile(r"\W*[0-9][0-9.,' \u00a0]*\W*")  # 1,234 or 5 %
_LOOKED_AT = 1000
_NOT_FLOATS = (str, bool, np.bool_)
# Names that pandas gives the index of a frame in a file, if it has none.
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")


@dataclasses.dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a table. Names may be numbers, and become texts.

    Attributes:
        label: the labels; None where nothing is judged.
        features: the features, in order; None for all other columns of numbers.
        missing: whether features may be missing, and are then NaN.
        texts: the features that are texts, of which `query` may be one.
        context: those features of any kind that are of the list.
        text_words: how many words of a text are used.
        embedding_inputs: whether a model takes the numbers of embeddings too.
        spec: what the features are; None until a table has been read.
    """

    label: str | None
    query: str
    features: Sequence[str] | None = None
    weight: str | None = None
    doc_id: str | None = None
    missing: bool = False
    categories: Sequence[str] = ()
    texts: Sequence[str] = ()
    embeddings: Sequence[str] = ()
    context: Sequence[str] = ()
    text_words: int = TEXT_WORDS
    embedding_inputs: bool = False
    spec: FeatureSpec | None = None

    def __post_init__(self) -> None:
        """Checks the names, and makes texts of them."""
        for field in ("features", "categories", "texts", "embeddings", "context"):
            given = getattr(self, field)
            if isinstance(given, str):
                raise ValueError(
                    f"`{field}` must be a list of columns. Received: {given!r}."
                )
            if given is not None:
                names = tuple(column_names(given, f" in `{field}`"))
                object.__setattr__(self, field, names)
        for field in ("label", "query", "weight", "doc_id"):
            if getattr(self, field) is not None:
                (name,) = column_names([getattr(self, field)], f" in `{field}`")
                object.__setattr__(self, field, name)
        for name, count in collections.Counter(self.used).items():
            if count > 1:
                raise ValueError(f"Column {name!r} has two uses.")
        if self.features is not None and not (self.features or self.named):
            raise ValueError("`features` must name at least one column.")

    @property
    def named(self) -> list[str]:
        """The features that are no numbers."""
        return [*self.categories, *self.texts, *self.embeddings]

    @property
    def others(self) -> list[str]:
        """The columns that are not numbers of features."""
        named = [self.label, self.query, self.weight, self.doc_id, *self.categories]
        named += [*self.embeddings, *(x for x in self.texts if x != self.query)]
        return [name for name in named if name is not None]

    @property
    def used(self) -> list[str]:
        """The columns that the settings name."""
        return [*self.others, *(self.features or ())]

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What says of what kind the features are."""
        named = self.categories, self.texts, self.embeddings, self.context
        return *named, self.text_words, self.embedding_inputs

    def of(self, known: Any) -> Columns:
        """Returns columns with the features of a spec, or of a first table's lists."""
        spec = known if isinstance(known, FeatureSpec) else known.spec
        names = known.feature_names if spec is None else spec.number_names
        return dataclasses.replace(self, features=names, spec=spec)

    def of_model(self, spec: FeatureSpec) -> Columns:
        """Returns columns with the features that a model takes."""
        names = [feature.name for feature in spec.features]
        for name in (*(self.features or ()), *self.named):
            if name not in names:
                raise ValueError(
                    f"The model takes no feature {name!r}. It takes: {_listed(names)}."
                )
        return dataclasses.replace(
            self,
            features=spec.number_names,
            categories=[x.name for x in spec.encoded() if x.kind == "category"],
            texts=[x.name for x in spec.encoded() if x.kind == "text"],
            embeddings=[x.name for x in spec.embeddings],
            spec=spec,
        )


def is_frame(data: Any) -> bool:
    """Returns whether data is a pandas.DataFrame, or can become one."""
    if type(data).__name__ == "LazyFrame":
        raise ValueError("A LazyFrame has no rows yet: pass its `collect()`.")
    return hasattr(data, "to_pandas") or (
        hasattr(data, "columns") and hasattr(data, "iloc")
    )


def as_frame(data: Any, argument: str = "df") -> Any:
    """Returns data as a pandas.DataFrame whose columns have different texts as names.

    Data is a frame, or has `to_pandas`, as a Polars frame or a PyArrow table has.
    """
    if hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if not is_frame(data):
        raise ValueError(
            f"`{argument}` must be a pandas.DataFrame, or have `to_pandas()`. "
            f"Received: {type(data).__name__}."
        )
    names = column_names(data.columns, f" in `{argument}`")
    if names != list(data.columns):
        data = data.copy(deep=False)
        data.columns = names
    for name, dtype in data.dtypes.items():  # Lists and categories of PyArrow.
        kind = str(getattr(dtype, "pyarrow_dtype", "")).partition("<")[0]
        if kind == "dictionary" or kind.endswith("list"):
            plain = data[name].astype(object)
            plain = plain.astype("category") if kind == "dictionary" else plain
            data = data.assign(**{name: plain})
    return data


def column_names(names: Iterable[Any], where: str = "") -> list[str]:
    """Returns the names of columns, texts or numbers, as texts, which must differ.

    Examples:
        >>> column_names([0, "a", np.int64(2)])
        ['0', 'a', '2']
    """
    spellings: dict[str, list[Any]] = {}
    for name in names:
        if isinstance(name, tuple) or row_arrays.is_missing(name):
            levels = ", one for all levels" * isinstance(name, tuple)
            raise ValueError(
                f"There is a column {name!r}{where}, expected a text or a number as "
                f"its name{levels}."
            )
        spellings.setdefault(row_arrays.as_text(name), []).append(name)
    for text, given in spellings.items():
        if len(given) > 1:
            alike = all(name == text for name in given)
            formatted = "" if alike else f": {' and '.join(map(repr, given))}"
            raise ValueError(f"There are two columns {text!r}{where}{formatted}.")
    return list(spellings)


def named_columns(frame: Any, names: Iterable[Any], argument: str) -> list[str]:
    """Returns names of columns as texts, which a frame must have."""
    found = column_names(names, f" in `{argument}`")
    check_columns(list(frame.columns), found)
    return found


def find_features(frame: Any, columns: Columns) -> list[str]:
    """Returns the names of the feature columns."""
    check_columns(list(frame.columns), columns.used)
    if columns.features is not None:
        return list(columns.features)
    others = columns.others
    found = []
    for name in frame.columns:
        if name in others or _INDEX.fullmatch(name):
            continue
        if _has_numbers(frame[name]):
            found.append(name)
        else:
            _warn_of_numbers(frame[name])
    if not found and not columns.named:
        raise ValueError(f"No column except {_listed(others)} has numbers.")
    return found


def _has_numbers(series: Any) -> bool:
    """Returns whether all values are numbers, truth values or missing."""
    import pandas

    if _is_numeric(series.dtype):
        return True
    kind = pandas.api.types.infer_dtype(series, skipna=True)
    return series.dtype == object and kind in _NUMBERS


def _warn_of_numbers(series: Any) -> None:
    """Warns that a column is left out if its first values look like numbers."""
    values = series.dropna()
    if not any(map(_is_like_a_number, values.iloc[:_LOOKED_AT])):
        return
    reason = f"its type is {series.dtype}"
    texts = (x for x in values if isinstance(x, str) and not _is_decimal(x))
    wrong: Any = next(texts, None)
    if wrong is None and series.dtype == object:
        wrong = next((x for x in values if isinstance(x, _NOT_FLOATS)), None)
    if wrong is not None:
        one = row_arrays.shown(wrong)
        reason = f"not all of its values are numbers: one is {one}"
    messages.warn(f"Column {series.name!r} is not a feature, as {reason}.")


def _is_decimal(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _is_like_a_number(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_LIKE_A_NUMBER.fullmatch(value))
    return isinstance(value, Number)


def check_columns(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Checks that a table has the columns that are wanted, and no column twice."""
    missing = [name for name in wanted if name not in found]
    if missing:
        many = len(missing) > 1
        raise ValueError(
            f"There {'are' if many else 'is'} no column{'s' * many} "
            f"{_listed(missing)}. Found: {_listed(found)}."
        )
    column_names(found)


def fields(
    frame: Any,
    columns: Columns,
    begun: dict[str, int] | None = None,
    row_before: int = 0,
) -> dict[str, Any]:
    """Returns the fields of the `RankingLists` that a frame holds.

    `begun` and `row_before` are as for `row_arrays.splits_of_ids`.
    """
    names, count = find_features(frame, columns), len(frame)
    row_splits, query_ids = row_arrays.splits_of_ids(
        frame[columns.query], count, f"column {columns.query!r}", begun, row_before
    )
    found: dict[str, Any] = {
        "features": matrix(frame, names, columns.missing, columns.spec, row_before > 0),
        "labels": np.zeros(count, np.float32),
        "row_splits": row_splits,
        "query_ids": query_ids,
        "feature_names": tuple(columns.spec.feature_names if columns.spec else names),
    }
    for field, name in (("labels", columns.label), ("weights", columns.weight)):
        if name is not None:
            values = numbers(frame[name])
            found[field] = row_arrays.not_negative(f"column {name!r}", values)
    if columns.doc_id is not None:
        name = f"column {columns.doc_id!r}"
        found["doc_ids"] = row_arrays.names(frame[columns.doc_id], count, name)
    return found


def matrix(
    frame: Any,
    names: Sequence[str],
    missing: bool = False,
    spec: FeatureSpec | None = None,
    goes_on: bool = False,
) -> np.ndarray:
    """Returns columns of numbers as a float32 array `[num_items, num_features]`.

    If values may be `missing`, they are then NaN. A `spec` leaves room for embeddings.
    If a table `goes_on`, its first rows have told what is worth a warning.
    """
    warn = None if goes_on else messages.warn
    width = len(names) if spec is None else spec.num_features
    features = np.empty([len(frame), width], np.float32)
    for column, name in enumerate(names):
        values = numbers(frame[name], row_arrays.WITHOUT_TEXT)
        with np.errstate(over="ignore"):
            features[:, column] = values
        part, dtype = features[:, column : column + 1], frame[name].dtype
        # Floats round long integers.
        if isinstance(dtype, np.dtype) and dtype.kind in "iu":
            values = frame[name].to_numpy()
        row_arrays.check_features(part, values[:, np.newaxis], [name], missing, warn)
    return features


def numbers(series: Any, of_text: str = "") -> np.ndarray:
    """Returns the values of a pandas.Series as float64, with NaN for missing ones."""
    if _is_numeric(series.dtype):
        return series.to_numpy(np.float64, na_value=np.nan)
    found = np.full(len(series), np.nan)
    for row, value in enumerate(series.tolist()):  # NumPy makes numbers of dates.
        if row_arrays.is_missing(value):
            continue
        try:
            if isinstance(value, row_arrays.NOT_NUMBERS):
                raise ValueError
            found[row] = value  # Such as a `decimal.Decimal`.
        except (OverflowError, TypeError, ValueError):
            hint = of_text * isinstance(value, str)
            raise not_a_number(series.name, value, row, hint) from None
    return found


def not_a_number(column: str, value: Any, row: int, hint: str = "") -> RowError:
    """Returns the error of a value that is not a number, or too large for one."""
    shown = row_arrays.shown(value)
    return RowError(f"column {column!r} is {shown}, expected a number{hint}", row)


def _is_numeric(dtype: Any) -> bool:
    """Returns whether a column has numbers or truth values."""
    import pandas

    return pandas.api.types.is_numeric_dtype(
        dtype
    ) and not pandas.api.types.is_complex_dtype(dtype)


def _listed(names: Collection[Any]) -> str:
    """Returns the first of some names, for a message."""
    shown = ", ".join(map(repr, list(names)[:12]))
    return f"{shown}, ..." if len(names) > 12 else shown
