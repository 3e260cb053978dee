"""Cuts lists, sorted by length, into batches that need little padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def cut_by_items(
    order: np.ndarray, lengths: np.ndarray, max_items: int
) -> Iterator[np.ndarray]:
    """Cuts lists, sorted by length, into batches of a bounded number of padded items.

    `order` has the indices of the lists from short to long, and is yielded in
    consecutive pieces. `max_items` counts padding, and a batch of one list may have
    more.
    """
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - start + 1) * lengths[order[end]] > max_items:
            yield order[start:end]
            start = end


def cut_by_padding(
    lengths: np.ndarray,
    max_lists: int,
    max_padding: float | None = None,
    num_batches: int | None = None,
) -> list[int]:
    """Returns the ends of the fewest batches that need little padding.

    Full batches are used if they need little enough. Otherwise the result has the least
    padding of all divisions into that many batches.

    Args:
        lengths: lengths of the lists, from short to long.
        max_lists: maximum number of lists per batch.
        max_padding: maximum ratio of padded to real items; None for full batches.
        num_batches: if given, the number of batches, whatever their padding; from the
            number of full batches up to the number of lists.

    Examples:
        >>> lengths = np.array([1, 1, 1, 1, 5, 9])
        >>> cut_by_padding(lengths, 4), cut_by_padding(lengths, 6)
        ([4, 6], [6])
        >>> cut_by_padding(lengths, 6, max_padding=1.25)
        [4, 6]
        >>> cut_by_padding(lengths, 6, num_batches=3)
        [4, 5, 6]
    """
    count, items = len(lengths), lengths.sum()
    ends = [*range(max_lists, count, max_lists), count][: max(1, count)]
    padded = sum(
        (end - start) * lengths[end - 1] for start, end in zip([0, *ends], ends)
    )
    little = max_padding is None or padded <= max_padding * items
    if little and num_batches in (None, len(ends)):
        return ends
    # A dynamic program. `least[e]` is the least padded size of the first `e` lists in
    # this many batches; all sizes of the last batch are tried at once.
    sizes = np.arange(max_lists, 0, -1)
    last = lengths[:, np.newaxis] * sizes
    least = np.full(count + 1, np.inf)
    least[0] = 0
    best_sizes = []
    while True:
        before = np.concatenate([np.full(max_lists - 1, np.inf), least[:-1]])
        sums = np.lib.stride_tricks.sliding_window_view(before, max_lists) + last
        chosen = sums.argmin(axis=1)
        least = np.concatenate([[np.inf], sums[np.arange(count), chosen]])
        best_sizes.append(sizes[chosen])
        if num_batches is None:
            if max_padding is not None and least[-1] <= max_padding * items:
                break
        elif len(best_sizes) == num_batches:
            break
    ends = [count]
    for size in reversed(best_sizes[1:]):
        ends.append(ends[-1] - int(size[ends[-1] - 1]))
    return ends[::-1]
