"""Rows of features that grow in place."""

from __future__ import annotations

import mmap

import numpy as np

# From this size on, memory comes in huge pages, as NumPy asks for its own arrays: the
# first write to many small pages takes longer than to fill them.
_HUGE_BYTES = 1 << 22


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
        """Initialises it without rows.

        Args:
            width: number of features.
        """
        self._held: mmap.mmap | None = None  # Zero where nothing was written yet.
        self.num_rows = 0
        self.width = width

    def append(self, rows: np.ndarray) -> None:
        """Adds rows.

        Args:
            rows: float32 features `[count, width]`.
        """
        self.add(len(rows))[:] = rows

    def add(self, count: int) -> np.ndarray:
        """Adds rows of zeros, and returns them.

        Args:
            count: their number.

        Returns:
            A view `[count, width]`, which must not be used after the next change.
        """
        self.num_rows += count
        size = 4 * self.num_rows * self.width
        if size > (0 if self._held is None else len(self._held)):
            self._held = _grown(self._held, size)
        return self.whole()[self.num_rows - count :]

    def widen(self, width: int) -> None:
        """Appends features, which are 0 in the existing rows.

        Args:
            width: the new number of features.
        """
        wider = GrowingRows(width)
        wider.add(self.num_rows)[:, : self.width] = self.whole()
        self._held, self.width = wider._held, width

    def whole(self) -> np.ndarray:
        """Returns all rows, `[num_rows, width]`, as a view."""
        held = bytearray() if self._held is None else self._held
        return np.ndarray([self.num_rows, self.width], np.float32, held)

    def take(self, count: int) -> np.ndarray:
        """Removes rows from the beginning, and returns them; the caller may keep them.

        Args:
            count: their number.
        """
        rows = self.whole()
        rest = GrowingRows(self.width)
        rest.append(rows[count:])
        self._held, self.num_rows = rest._held, rest.num_rows
        return rows[:count]


def _grown(held: mmap.mmap | None, size: int) -> mmap.mmap:
    """Returns memory of at least some size, which begins with what is held."""
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
