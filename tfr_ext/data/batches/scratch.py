"""Arrays in a temporary file."""

from __future__ import annotations

import concurrent.futures
import math
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
        >>> scratch.flush()
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
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._pending: concurrent.futures.Future[None] | None = None

    def append(self, *arrays: np.ndarray | None) -> int:
        """Writes arrays one after the other in the background; returns their place.

        Args:
            *arrays: arrays; None is left out. They must not change afterwards.

        Raises:
            OSError: if there was no room for those before.
        """
        self.flush()
        place = self._size
        given = [np.ascontiguousarray(x, np.float32) for x in arrays if x is not None]
        self._size += sum(array.nbytes for array in given)
        self._pending = self._thread.submit(self._write, place, given)
        return place

    def flush(self) -> None:
        """Waits until everything is written.

        Raises:
            OSError: if there is no room.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def read(
        self,
        place: int,
        shapes: Iterable[tuple[int, ...]],
        buffer: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Reads arrays that were written together, before the last `flush`.

        Args:
            place: what `append` returned.
            shapes: their shapes.
            buffer: float32 numbers, at least as many as the first array has, which is
                read into them; memory that was never used takes longer to fill.
        """
        arrays = []
        for shape in shapes:
            size = math.prod(shape)
            made = np.empty(size, np.float32) if buffer is None else buffer[:size]
            arrays.append(made.reshape(shape))
            buffer = None
        with self._lock:
            self._file.seek(place)
            for array in arrays:
                left = array.reshape(-1).data.cast("B")
                while left:
                    left = left[self._file.readinto(left) :]
        return arrays

    def _write(self, place: int, arrays: list[np.ndarray]) -> None:
        try:
            with self._lock:
                self._file.seek(place)
                for array in arrays:
                    left = array.reshape(-1).data.cast("B")
                    while left:
                        left = left[self._file.write(left) :]
        except OSError as error:
            raise OSError(
                error.errno,
                f"{os.strerror(error.errno or 0)} after {place:,} bytes of lists "
                "to stream. The environment variable TMPDIR names another directory",
                tempfile.gettempdir(),
            ) from error
