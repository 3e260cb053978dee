"""Files with one score per item, as other rankers write them."""

from __future__ import annotations

import os

import numpy as np

from tfr_ext.core import decimals
from tfr_ext.data import text_files

_MOST = float(np.finfo(np.float32).max)


def read_scores(path: str, num_items: int) -> np.ndarray:
    """Reads one score per item.

    Args:
        path: a text file with one number per line, or a file ending in `.npy` with an
            array `[num_items]`, in the order of the items.
        num_items: number of items.

    Returns:
        A float64 array `[num_items]`.

    Raises:
        ValueError: If the number of scores differs, or a score is not a number that is
            finite as a 32-bit float; the message names the file and the line.
        OSError: If the file cannot be read.
    """
    is_array = path.endswith(".npy")
    scores = _array(path) if is_array else _text(path)
    place = f"{path}: item " if is_array else f"{path}:"
    # NaN is not `<=` either. A run file has 32-bit floats.
    wrong = np.flatnonzero(~(np.abs(scores) <= _MOST))
    if len(wrong):
        raise ValueError(
            f"{place}{wrong[0] + 1}: expected a number that is finite as a 32-bit "
            f"float. Found: {scores[wrong[0]]:g}"
        )
    if len(scores) != num_items:
        line = min(len(scores), num_items) + 1
        raise ValueError(
            f"{place}{line}: expected {num_items} scores, one per item. Found: "
            f"{len(scores)}"
        )
    return scores


def _text(path: str) -> np.ndarray:
    scores, blank = [], 0
    for number, line in text_files.read_lines(path):
        text = line.strip(" \t")
        if not text:
            blank = blank or number
            continue
        try:
            if blank:  # Blank lines are only allowed at the end.
                number, line = blank, ""
                raise ValueError
            scores.append(decimals.parse_number(text, finite=False))
        except ValueError:
            raise ValueError(
                f"{path}:{number}: expected one number. Found: {line.strip()[:60]!r}"
            ) from None
    return np.array(scores, np.float64)


@np.errstate(over="ignore")  # `read_scores` refuses what becomes infinite.
def _array(path: str) -> np.ndarray:
    if text_files.is_pipe(path):
        raise ValueError(f"{path}: expected a file with an array. Found: a pipe.")
    try:
        # Mapped, so that memory is needed only for what the file really has.
        scores = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # A damaged header raises errors of any type.
        raise ValueError(
            f"{path}: expected an array, as np.save writes it. Found: {error}"
        ) from error
    # For an archive, np.load does not return an array.
    if (
        not isinstance(scores, np.memmap)
        or scores.ndim != 1
        or scores.dtype.kind not in "iuf"
    ):
        raise ValueError(
            f"{path}: expected an array of numbers of one dimension. Found: "
            + " ".join(str(getattr(scores, a, "")) for a in ("dtype", "shape")).strip()
        )
    end, size = scores.offset + scores.nbytes, os.path.getsize(path)
    if end != size:
        raise ValueError(
            f"{path}: expected the {end} bytes that its header promises. Found: {size}."
        )
    return np.array(scores, np.float64)
