"""Checks arrays with one row per item, and converts them to lists."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# What messages about texts among features add.
WITHOUT_TEXT = "; leave a column of texts out, or name it as a category"
# From 2 to the power of so many bits on, whole numbers are rounded.
_BITS: dict[type, int] = {np.float16: 11, np.float32: 24}
# What NumPy makes numbers of: texts, dates in any unit, and complex numbers.
NOT_NUMBERS = (str, bytes, np.datetime64, np.timedelta64, complex, np.complexfloating)
_DATES = (datetime.datetime, datetime.timedelta, np.datetime64, np.timedelta64)
# Below it, neighbours in float32 are less than .01 apart.
_LARGE = 2**16


class RowError(ValueError):
    """Raised for a wrong row of an array or a table.

    Examples:
        >>> str(RowError("the label is -1, expected a number >= 0", 7))
        'Row 7 (from 0): the label is -1, expected a number >= 0.'
    """

    def __init__(self, problem: str, row: int) -> None:
        """Creates the error."""
        super().__init__(problem, row)  # Takes all arguments, so that pickling works.

    @property
    def problem(self) -> str:
        """The expected and the found value, in words; `args` may be reworded."""
        return self.args[0]

    @property
    def row(self) -> int:
        """The row, from 0."""
        return self.args[1]

    def __str__(self) -> str:
        """Returns the row and the problem."""
        return f"Row {self.row} (from 0): {self.problem}."


def fields(
    features: np.ndarray,
    y: Any,
    group: Any,
    qid: Any,
    weight: Any,
    doc_ids: Any,
    query_ids: Any,
) -> dict[str, Any]:
    """Returns fields of `RankingLists`.

    Arguments and errors are those of `from_arrays`, but `features` is of `matrix`.
    """
    count = len(features)
    if (group is None) == (qid is None):
        raise ValueError(
            "Give `group`, the number of rows of each list, or `qid`, the query of "
            f"each row. Received {'neither' if group is None else 'both'}."
        )
    if qid is not None:
        if query_ids is not None:
            raise ValueError(
                "`query_ids` must not be given with `qid`, which names the queries."
            )
        row_splits, query_ids = splits_of_ids(qid, count)
    else:
        row_splits = splits_of_sizes(group, count)
        query_ids = _query_ids(query_ids, len(row_splits) - 1)
    return {
        "features": features,
        "labels": np.zeros(count, np.float32) if y is None else per_item("y", y, count),
        "row_splits": row_splits,
        "query_ids": query_ids,
        "doc_ids": None if doc_ids is None else names(doc_ids, count, "`doc_ids`"),
        "weights": None if weight is None else weights(weight, np.diff(row_splits)),
    }


def matrix(
    X: Any,
    feature_names: Sequence[str] | None,
    missing: bool,
    warn: Callable[[str], None],
) -> np.ndarray:
    """Returns features `[num_items, num_features]` as a float32 array.

    `X` is an array, nested lists, a sparse matrix, which is made dense, or a data
    frame. If values may be `missing`, they are then NaN. The names are only for
    messages.
    """
    if hasattr(X, "toarray"):
        X = X.toarray()
    values = _numbers("X", X)
    if values.ndim != 2:
        raise ValueError(
            f"`X` must have shape [num_items, num_features]. Received: {values.shape}."
            + " Reshape your data." * (values.ndim == 1)
        )
    if not values.shape[1]:
        raise ValueError(
            f"`X` has 0 feature(s) (shape={values.shape}) while a minimum of 1 is "
            "required."
        )
    features = _float32(values)
    check_features(features, values, feature_names, missing, warn)
    return features


def check_features(
    features: np.ndarray,
    given: np.ndarray,
    names: Sequence[str] | None,
    missing: bool,
    warn: Callable[[str], None] | None,
) -> None:
    """Checks that features are finite, or NaN where they may be missing.

    `given` has the same features before they became float32. Warns of a column in which
    rows next to each other, which are mostly of one list, have become equal.
    """

    def name(column: int) -> str:
        return f"`X` column {column}" if names is None else f"column {names[column]!r}"

    wrong = np.isinf(features) if missing else ~np.isfinite(features)
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        hint = "" if missing else "; `missing` lets features be NaN in training"
        raise _not_finite(name(column), given[row, column], row, hint)
    if given.dtype == features.dtype or warn is None:
        return
    highest = np.fmax.reduce(features, axis=0, initial=0)
    lowest = np.fmin.reduce(features, axis=0, initial=0)
    for column in np.flatnonzero(np.fmax(highest, -lowest) > _LARGE).tolist():
        was, now = given[:, column], features[:, column]
        # NaN does not, and neither does a sum of floats in another order.
        noise = 0 if given.dtype.kind in "iu" else 1e-12 * np.abs(was[1:])
        differ = np.abs(was[1:] - was[:-1]) > noise
        lost = differ & (now[1:] == now[:-1])
        if lost.sum() > 0.1 * differ.sum():
            warn(
                f"Of {name(column)}, numbers that differ become equal, as features are "
                "float32. Subtract what they share, such as a first time, or name them "
                "as categories."
            )


def per_item(argument: str, values: Any, count: int) -> np.ndarray:
    """Returns labels or weights, `[count]` or `[count, 1]`, as float32 `[count]`."""
    numbers = _numbers(argument, values)
    if numbers.shape not in ((count,), (count, 1)):
        raise ValueError(
            f"`{argument}` must have one number for each of the {count} rows of `X`. "
            f"Received: shape {numbers.shape}."
        )
    return not_negative(f"`{argument}`", numbers.reshape([-1]))


def not_negative(name: str, numbers: np.ndarray) -> np.ndarray:
    """Returns numbers `[num_items]`, which must be finite and `>= 0`, as float32."""
    found = _float32(numbers) + np.float32(0)  # -0.0 becomes 0.0.
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        if np.isfinite(found[row]):
            problem = f"{name} is {numbers[row]:g}, expected a number >= 0"
            raise RowError(problem, row)
        raise _not_finite(name, numbers[row], row)
    return found


def weights(values: Any, lengths: np.ndarray) -> np.ndarray:
    """Returns weights, one per item or per list, as float32 `[num_items]`."""
    numbers = _numbers("weight", values)
    items, lists = int(lengths.sum()), len(lengths)
    if numbers.shape in ((lists,), (lists, 1)) and lists != items:
        numbers = np.repeat(numbers.reshape([-1]), lengths)
    if numbers.shape not in ((items,), (items, 1)):
        raise ValueError(
            f"`weight` must have one number for each of the {items} rows of `X`, or "
            f"for each of the {lists} lists. Received: shape {numbers.shape}."
        )
    return not_negative("`weight`", numbers.reshape([-1]))


def splits_of_sizes(group: Any, num_items: int) -> np.ndarray:
    """Returns the row splits of lists of given sizes, which must sum to `num_items`."""
    sizes = _numbers("group", group)
    wrong = ~((sizes >= 1) & (sizes == np.floor(sizes)))
    if sizes.ndim != 1 or wrong.any():
        found = f"shape {sizes.shape}" if sizes.ndim != 1 else f"{sizes[wrong][0]:g}"
        raise ValueError(
            "`group` must be the number of rows of each list, each at least 1. "
            f"Received: {found}."
        )
    total = sizes.sum(dtype=np.float64)  # A sum of integers might overflow.
    if total != num_items:
        is_qid = len(sizes) == num_items
        hint = " If it names the query of each row, it is `qid`." * is_qid
        raise ValueError(
            f"The sizes in `group` sum to {total:.16g}, but `X` has {num_items} "
            f"rows.{hint}"
        )
    return np.concatenate([[0], np.cumsum(sizes.astype(np.int64))])


def splits_of_ids(
    qid: Any,
    num_items: int,
    name: str = "`qid`",
    begun: dict[str, int] | None = None,
    row_before: int = 0,
) -> tuple[np.ndarray, list[str]]:
    """Returns the row splits and the queries of lists from the query id of each row.

    The rows of a query must be next to each other. `begun` has the row in which each
    query of the `row_before` rows before these began; queries of these rows are added.
    """
    ids = names(qid, num_items, name)
    starts = [row for row in range(len(ids)) if row == 0 or ids[row] != ids[row - 1]]
    first = {} if begun is None else begun
    for row in starts:
        before = first.setdefault(ids[row], row_before + row)
        if before != row_before + row:
            raise RowError(
                f"query {ids[row]!r} began in row {before} and other rows came "
                "between; the rows of a query must be next to each other: sort them "
                f"by {name}",
                row,
            )
    return np.array([*starts, num_items], np.int64), [ids[row] for row in starts]


def names(values: Any, count: int, name: str) -> list[str]:
    """Returns the names of queries or documents as texts.

    A whole number is written as an integer: 7.0 becomes '7'.

    Raises:
        ValueError: If their number is wrong.
        RowError: If a name is missing, empty, a timestamp, which every format writes in
            another way, or a number that may be rounded.
    """
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ndarray) and values.dtype.kind not in "fmM":
        found = values.tolist()  # Masked values become None.
    else:
        found = [None if value is np.ma.masked else value for value in values]
    if len(found) != count:
        raise ValueError(f"{name} must have {count} entries. Received: {len(found)}.")
    return [_name(value, name, row) for row, value in enumerate(found)]


def _query_ids(query_ids: Any, count: int) -> list[str]:
    """Returns the names of lists, by default their numbers from 1."""
    if query_ids is None:
        return [str(q + 1) for q in range(count)]
    found = names(query_ids, count, "`query_ids`")
    twice = [name for name, n in collections.Counter(found).items() if n > 1]
    if twice:
        raise ValueError(f"`query_ids` names two lists {twice[0]!r}.")
    return found


def _name(value: Any, name: str, row: int) -> str:
    try:
        text = as_text(value)
    except ValueError as error:
        raise RowError(f"{name} is {error}", row) from None
    if text and isinstance(value, _DATES):
        raise RowError(f"{name} is the time {text}, expected a text or a number", row)
    if not text:
        raise RowError(f"{name} is missing or empty, expected a name", row)
    return text


def as_text(name: Any) -> str:
    """Returns a name, which may be a number, as a text; one that is missing is empty.

    Examples:
        >>> as_text("a"), as_text(np.int64(7)), as_text(7.0), as_text(None)
        ('a', '7', '7', '')
    """
    if isinstance(name, (list, tuple, dict, set, frozenset, np.ndarray)):
        raise ValueError(f"{name!r}, expected a name or a number")
    if isinstance(name, bytes):
        return name.decode()
    if is_missing(name):
        return ""
    return str(exact(name))


def exact(value: Any) -> Any:
    """Returns a value of a name, an integer in place of a whole number such as 7.0."""
    if not isinstance(value, (float, np.floating)) or not float(value).is_integer():
        return value
    if abs(float(value)) >= 2.0 ** _BITS.get(type(value), 53):
        raise ValueError(f"{value}, a rounded number: use Int64 or texts for ids")
    return int(value)


def shown(value: Any) -> str:
    """Returns a value for a message, cut if it is long."""
    text = str(value) if isinstance(value, np.number) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, NaT or pandas' missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _numbers(argument: str, values: Any) -> np.ndarray:
    """Returns an array of numbers, of any shape."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        found = np.asarray(unmasked(values))
    except ValueError as error:  # Nested lists of different lengths.
        raise _no_numbers(argument, f": {error}") from error
    if found.dtype.kind == "O":
        found = _of_objects(argument, found)
    if found.dtype.kind not in "biuf":
        hint = WITHOUT_TEXT * (argument == "X" and found.dtype.kind in "US")
        more = ". Complex data not supported" * (found.dtype.kind == "c")
        raise _no_numbers(argument, f". Received: {found.dtype}{hint}{more}")
    return found


def unmasked(values: Any) -> Any:
    """Returns values with NaN where a masked array hides one.

    Examples:
        >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
        array([ 1., nan])
    """
    if isinstance(values, (list, tuple)) and any(map(np.ma.is_masked, values)):
        values = np.ma.array(values)
    if np.ma.is_masked(values):
        return values.astype(np.float64).filled(np.nan)
    return values


def _of_objects(argument: str, objects: np.ndarray) -> np.ndarray:
    """Returns an array of Python objects as numbers, with NaN for missing ones."""
    for place, value in np.ndenumerate(objects):
        if isinstance(value, NOT_NUMBERS) and not is_missing(value):
            hint = WITHOUT_TEXT * (argument == "X" and isinstance(value, (str, bytes)))
            problem = f". Received: {value!r} at {list(place)}{hint}"
            raise _no_numbers(argument, problem)
    try:
        missing = np.vectorize(is_missing, otypes=[bool])(objects)
        return np.where(missing, np.nan, objects).astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise _no_numbers(argument, f": {error}") from error


def _no_numbers(argument: str, problem: str) -> ValueError:
    return ValueError(f"`{argument}` must be an array of numbers{problem}.")


def _float32(numbers: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32, copy=False)


def _not_finite(name: str, value: Any, row: int, of_nan: str = "") -> RowError:
    expected = "a finite number (neither NaN nor infinity)"
    if np.isnan(value):
        expected += of_nan
    elif np.isfinite(value):
        expected = "a number that float32 can hold"
    return RowError(f"{name} is {value:g}, expected {expected}", row)
