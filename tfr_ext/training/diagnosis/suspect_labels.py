"""Checks labels before anything is trained on them."""

from __future__ import annotations

from typing import Any

import numpy as np

# Above this, the gain of one label drowns those of others: a float32 has 24 bits.
_HIGHEST_GRADE = 30
# Fewer permutations, or fewer labels, can occur by chance.
_LEAST_RANKED_LISTS = 2
_LEAST_RANKED_LENGTH = 3


def label_warnings(
    labels: Any, max_label: float | None = None, gain: str = "exponential"
) -> list[str]:
    """Returns warnings about labels that look wrong, a sentence or two each.

    Args:
        labels: labels of any number type, `[batch, list]`, negative at padding.
        max_label: the highest grade, if the loss or the metric is given one.
        gain: 'exponential' or 'power' if a metric or loss has the gain
            `2**label - 1` or `2**label`, else 'linear'.

    Returns:
        The warnings, none if nothing looks wrong.

    Raises:
        ValueError: If the labels do not have this shape.

    Examples:
        >>> for line in label_warnings([[2, 1, 3], [3, 2, 1]]):
        ...     print(line)
        The labels of each list are 1 to its length: they look like ranks. The best item has the highest label: pass list length - rank.
        >>> label_warnings([[2, 1, 0], [0, 1, -1]])
        []
    """  # noqa: E501 (output)
    array = np.asarray(labels)
    if array.ndim != 2:
        raise ValueError(
            f"`labels` must have shape [batch, list]. Received: {array.shape}."
        )
    array = array.astype(np.float64)
    real = ~(array < 0)
    found = []
    odd = int(((array < 0) & (array != -1)).sum())
    if odd:
        found.append(
            f"{_count(odd, 'label is', 'labels are')} negative but not -1: any "
            "negative label is padding, and its item is left out."
        )
    hollow = int((~real.any(axis=1)).sum())
    if hollow:
        found.append(f"{_count(hollow, 'list has', 'lists have')} no item but padding.")
    splits = np.concatenate([[0], np.cumsum(real.sum(axis=1))])
    return found + flat_label_warnings(array[real], splits, max_label, gain)


def flat_label_warnings(
    labels: np.ndarray,
    row_splits: np.ndarray,
    max_label: float | None = None,
    gain: str = "exponential",
    remedy: str = "pass `gain='linear'` to the loss and to NDCG metrics",
) -> list[str]:
    """Returns warnings about the labels of real items, given list by list.

    Args:
        labels: labels of all items, `[num_items]`.
        row_splits: list `i` has the labels `row_splits[i]` to `row_splits[i + 1]`.
        max_label: see `label_warnings`.
        gain: see `label_warnings`.
        remedy: how to get a linear gain; empty if that is not possible.
    """
    if not len(labels):
        return []
    not_finite = int((~np.isfinite(labels)).sum())
    if not_finite:
        return [
            f"{_count(not_finite, 'label is', 'labels are')} NaN or infinite, and so "
            "the loss will be too."
        ]
    lowest, highest = labels.min(), labels.max()
    if lowest == highest:
        return [f"All labels are {lowest:g}: there is nothing to learn."]
    lengths = np.diff(row_splits)
    starts = row_splits[:-1][lengths > 0]
    least, most = (f.reduceat(labels, starts) for f in (np.minimum, np.maximum))
    found = []
    if (least == most).all():
        found.append("No list has two different labels: there is no order to learn.")
    found += rank_warnings(labels, row_splits)
    if max_label is not None and highest > np.float32(max_label):
        above = int((labels > np.float32(max_label)).sum())
        found.append(
            f"{_count(above, 'label is', 'labels are')} above max_label={max_label:g}: "
            f"the highest is {highest:g}."
        )
    if gain != "linear":
        formula = "2**label - 1" if gain == "exponential" else "2**label"
        alternative = f", or {remedy}." if remedy else "."
        advice = f" If they are not grades, {remedy}." if remedy else ""
        if highest > _HIGHEST_GRADE:
            found.append(
                f"The highest label is {highest:g}: with the gain {formula}, labels "
                f"below {highest - 24:g} vanish beside it. Rescale the labels to "
                f"grades of 0 to 4 or so{alternative}"
            )
        elif highest > 1 and (labels != np.floor(labels)).any():
            some = labels[labels != np.floor(labels)][0]
            found.append(
                f"Labels such as {some:g} are not integers: the gain {formula} is "
                f"meant for grades.{advice}"
            )
    return found


def rank_warnings(labels: np.ndarray, row_splits: np.ndarray) -> list[str]:
    """Warns if the labels of each list are those from 0 or 1 up, each once.

    Args:
        labels: labels of all items, `[num_items]`.
        row_splits: where the lists begin and end.
    """
    lengths = np.diff(row_splits)
    if (lengths >= _LEAST_RANKED_LENGTH).sum() < _LEAST_RANKED_LISTS:
        return []
    lists = np.repeat(np.arange(len(lengths)), lengths)
    first = labels.min()
    # The sorted labels, if they are ranks.
    ranks = np.arange(len(labels)) - np.repeat(row_splits[:-1], lengths) + first
    if first not in (0, 1) or (labels[np.lexsort((labels, lists))] != ranks).any():
        return []
    what = "1 to its length" if first == 1 else "0 to its length - 1"
    return [
        f"The labels of each list are {what}: they look like ranks. The best item has "
        "the highest label: pass list length - rank."
    ]


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
