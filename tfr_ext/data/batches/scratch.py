"""Arrays in a temporary file."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable

import numpy as np


class Scratch:
    """Float32 arrays in a temporary file, which no other process sees.

    The file has no name, so that it is gone when the object or the process is.

    Examples:
        >>> scratch = Scratch()
        >>> place = scratch.append(np.float32([[1, 2]]), None, np.float32([3]))
        >>> scratch.read(place, [(1, 2), (1,)])
        [array([[1., 2.]], dtype=float32), array([3.], dtype=float32)]
    """

    def __init__(self) -> None:
        """Makes the file, in the directory that `tempfile` chooses.

        Raises:
            OSError: if it cannot be made.
        """
        self._file = tempfile.TemporaryFile(buffering=0)
        self._size = 0
        self._lock = threading.Lock()

    def append(self, *arrays: np.ndarray | None) -> int:
        """Writes arrays one after the other, and returns their place.

        Args:
            *arrays: arrays; None is left out.

        Raises:
            OSError: if there is no room.
        """
        place = self._size
        for array in arrays:
            if array is not None:
                self._write(np.ascontiguousarray(array, np.float32))
        return place

    def read(self, place: int, shapes: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
        """Reads arrays that were written together.

        Args:
            place: what `append` returned.
            shapes: their shapes.
        """
        arrays = [np.empty(shape, np.float32) for shape in shapes]
        with self._lock:
            self._file.seek(place)
            for array in arrays:
                left = array.reshape(-1).data.cast("B")
                while left:
                    left = left[self._file.readinto(left) :]
        return arrays

    def _write(self, array: np.ndarray) -> None:
        left = array.reshape(-1).data.cast("B")
        try:
            with self._lock:
                self._file.seek(self._size)
                while left:
                    left = left[self._file.write(left) :]
        except OSError as error:
            raise OSError(
                error.errno,
                f"{os.strerror(error.errno or 0)} after {self._size:,} bytes of lists "
                "to stream. The environment variable TMPDIR names another directory",
                tempfile.gettempdir(),
            ) from error
        self._size += array.nbytes
