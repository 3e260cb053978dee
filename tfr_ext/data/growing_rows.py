"""A matrix of features that grows in place, and the concatenation of lists."""

from __future__ import annotations

import mmap
from collections.abc import Iterable

import numpy as np

from tfr_ext.data.lists import RankingLists

# From this size on, memory comes in huge pages, as NumPy asks for its own arrays: the
# first write to many small pages takes longer than to fill them.
_HUGE_BYTES = 1 << 22
# What `RankingLists` has beside features, row splits and names.
ARRAYS = ("labels", "label_distributions", "weights", "ids", "context_ids")


class GrowingRows:
    """A float32 array to which rows are added, in place if the system can.

    From NumPy 2.5 on, `numpy.ndarray.resize` makes a copy, which needs twice the memory
    while it is made.

    Examples:
        >>> rows = GrowingRows(width=2)
        >>> rows.append(np.float32([[1, 2]]))
        >>> rows.add(1).tolist()
        [[0.0, 0.0]]
        >>> rows.whole().tolist()
        [[1.0, 2.0], [0.0, 0.0]]
    """

    def __init__(self, width: int = 0):
        """Initialises it without rows."""
        self._held: mmap.mmap | None = None  # Zero where nothing was written yet.
        self.num_rows = 0
        self.width = width

    def append(self, rows: np.ndarray) -> None:
        """Adds rows, float32 features `[count, width]`."""
        self.add(len(rows))[:] = rows

    def add(self, count: int) -> np.ndarray:
        """Returns a view of rows of zeros that it adds, valid until the next change."""
        self.num_rows += count
        size = 4 * self.num_rows * self.width
        if size > (0 if self._held is None else len(self._held)):
            self._held = _grown(self._held, size)
        return self.whole()[self.num_rows - count :]

    def widen(self, width: int) -> None:
        """Appends features, which are 0 in the existing rows."""
        wider = GrowingRows(width)
        wider.add(self.num_rows)[:, : self.width] = self.whole()
        self._held, self.width = wider._held, width

    def whole(self) -> np.ndarray:
        """Returns all rows, `[num_rows, width]`, as a view."""
        held = bytearray() if self._held is None else self._held
        return np.ndarray([self.num_rows, self.width], np.float32, held)

    def take(self, count: int) -> np.ndarray:
        """Removes the first rows, and returns them; the caller may keep them."""
        rows = self.whole()
        rest = GrowingRows(self.width)
        rest.append(rows[count:])
        self._held, self.num_rows = rest._held, rest.num_rows
        return rows[:count]


def _grown(held: mmap.mmap | None, size: int) -> mmap.mmap:
    """Returns memory of at least some size that begins with the present content."""
    # Pages that nobody writes to take no memory.
    size += size // 2
    if held is not None:
        try:
            held.resize(size)
            return _in_huge_pages(held)
        except SystemError:  # Not on this system.
            pass
    grown = _in_huge_pages(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    if held is not None:
        grown[: len(held)] = held[:]
    return grown


def _in_huge_pages(held: mmap.mmap) -> mmap.mmap:
    if len(held) >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        held.madvise(mmap.MADV_HUGEPAGE)
    return held


def concatenate(pieces: Iterable[RankingLists]) -> RankingLists:
    """Joins lists that come piece by piece into one.

    The features grow in place, so that memory is needed only for the result and one
    piece.

    Args:
        pieces: at least one; all of one width and spec, with label distributions and
            weights in all of them or in none. Document ids and names of features are
            kept if all pieces have them.

    Raises:
        ValueError: If there is no piece, two pieces differ in their width, in the names
            of their features or in their spec, or a query is in two of them.

    Examples:
        >>> piece = RankingLists(np.zeros([2, 3], np.float32), np.float32([1, 0]),
        ...                      np.int64([0, 2]), ["a"])
        >>> other = RankingLists(np.ones([1, 3], np.float32), np.float32([2]),
        ...                      np.int64([0, 1]), ["b"])
        >>> joined = concatenate([piece, other])
        >>> joined.row_splits.tolist(), joined.query_ids, joined.labels.tolist()
        ([0, 2, 3], ['a', 'b'], [1.0, 0.0, 2.0])
    """
    features = GrowingRows()
    spec = None
    lengths: list[np.ndarray] = []
    arrays: dict[str, list[np.ndarray]] = {name: [] for name in ARRAYS}
    feature_names: set[tuple[str, ...] | None] = set()
    query_ids: dict[str, None] = {}  # in order
    doc_ids: list[str] | None = []
    for piece in pieces:
        width = piece.num_features
        if not lengths:
            features, spec = GrowingRows(width), piece.spec
        if width != features.width:
            raise ValueError(
                f"Lists of {width} features follow lists of {features.width}."
            )
        if piece.spec != spec:
            raise ValueError(f"Lists of {piece.spec} follow lists of {spec}.")
        features.append(piece.features)
        for query_id in piece.query_ids:
            if query_id in query_ids:
                raise ValueError(f"Query {query_id!r} occurs twice.")
            query_ids[query_id] = None
        lengths.append(piece.lengths)
        for name, found in arrays.items():
            array = getattr(piece, name)
            if array is not None:
                found.append(array)
        names = piece.feature_names
        feature_names.add(None if names is None else tuple(names))
        if doc_ids is not None:
            if piece.doc_ids is None:
                doc_ids = None
            else:
                doc_ids += piece.doc_ids
    if not lengths:
        raise ValueError("There are no lists.")
    for name, found in arrays.items():
        if 0 < len(found) < len(lengths):
            raise ValueError(
                f"Some lists have {name.replace('_', ' ')} and others have none."
            )
    known_names = sorted(names for names in feature_names if names is not None)
    if len(known_names) > 1:
        first, other = next(x for x in zip(*known_names[:2]) if x[0] != x[1])
        raise ValueError(
            f"Some lists have a feature {first!r} where others have {other!r}."
        )
    return RankingLists(
        features=features.whole(),
        row_splits=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        query_ids=list(query_ids),
        doc_ids=doc_ids,
        feature_names=None if None in feature_names else known_names[0],
        spec=spec,
        **{name: np.concatenate(x) for name, x in arrays.items() if x},
    )
