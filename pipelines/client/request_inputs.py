"""Requests that name their inputs: numbers, categories, texts and embeddings."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pipelines.client.answers import FEATURES, MASK, checked_inputs

_WHOLE = re.compile(rb"(-?(0|[1-9][0-9]*)(\.0+)?)?")


class Input(NamedTuple):
    """An input: its names in a request and for the server, and what it takes.

    The axes of its values have names; `width` is how many numbers an item has, or 0,
    and `most` how many values of a category; 0 for a text.
    """

    name: str
    key: str
    axes: Sequence[str]
    width: int = 0
    is_integer: bool = False
    most: int = 1


def checked_mapping(
    given: Any, mask: Any | None, inputs: Sequence[Input]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Checks a request, and pads its lists to one length.

    Args:
        given: the values of each input by its name.
        mask: `[batch, list]`, True at real items; all items are real by default.
        inputs: what the model takes.

    Returns:
        The inputs of the signature for scores, padding being 0 and empty, and the mask.

    Raises:
        ValueError: If they are not what the model takes, or do not fit each other.
    """
    names = [x.name for x in inputs]
    takes = f"The model takes: {', '.join(names)}."
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f"Expected a mapping of inputs, not {kind}. {takes}")
    for name in [*given, *names]:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1)
            guess = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"There is no input {name!r}{guess} {takes}")
        if name not in given:
            raise ValueError(f"The request has no {name!r}. {takes}")
    parts = [_parts(given[x.name], x, x.axes, x.name) for x in inputs]
    first = next(i for i, x in enumerate(inputs) if "list" in x.axes)
    lengths = [*map(len, parts[first])]
    there = np.arange(max(lengths, default=0)) < np.array(lengths, int)[:, np.newaxis]
    padded: dict[str, np.ndarray] = {FEATURES: np.zeros([*there.shape, 0])}
    for one, part in zip(inputs, parts):
        of_items = "list" in one.axes
        items = [len(x) if of_items else n for x, n in zip(part, lengths)]
        wrong = [i for i, n in enumerate(items) if n != lengths[i]]
        if wrong or len(part) != len(lengths):
            found = f"{len(part)} lists, not {len(lengths)}"
            for i in wrong[:1]:
                found = f"{items[i]} items in list {i}, not {lengths[i]}"
            raise ValueError(f"{one.name!r} has {found}, as {names[first]!r} has.")
        shape = [*there.shape] if of_items else [len(lengths)]
        if len(one.axes) > len(shape):
            sizes = [*map(len, chain(*part) if of_items else part)]
            cut = 0 if one.width else sum(size > one.most for size in sizes)
            if cut:
                told = f"{one.name!r} has more than {one.most} values {cut} times; "
                warnings.warn(f"{told}the model uses the first ones.", stacklevel=4)
            shape.append(one.width or max([1, *sizes]))
        values = _padded(part, shape, 0 if one.width else b"")
        dtype = np.float32 if one.width else object
        padded[one.key] = np.array(values, dtype).reshape(shape)
    features = padded.pop(FEATURES)
    width, real = features.shape[2], there if mask is None else mask
    features, real = checked_inputs(features, real, width)
    if (real & ~there).any():
        raise ValueError("The mask has items that the lists do not have.")
    padded |= {FEATURES: features} if width else {}
    return {**padded, MASK: real}, real


def _parts(value: Any, of: Input, axes: Sequence[str], where: str) -> Any:
    """Returns the values of a part of an input, in lists as they are given."""
    if not axes:
        if of.most:
            return _text(value, of, where)
        tokens = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        return b" ".join(_text(x, of, where) for x in tokens)
    if axes[0] == "features" and of.name != FEATURES and value is None:
        return np.zeros(of.width, np.float32)  # An embedding that is missing.
    is_one = isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__")
    if is_one and axes[0] == "values":
        value, is_one = [value], False
    if is_one or not getattr(value, "ndim", 1):
        expected = f"expected a list, as {of.name!r} is [{', '.join(of.axes)}]"
        raise ValueError(f"{where} is {value!r}, {expected}.")
    if axes[0] == "features":
        return _numbers(value, of, where)
    found = [_parts(x, of, axes[1:], f"{where}[{i}]") for i, x in enumerate(value)]
    return [x for x in found if x] if axes[0] == "values" else found


def _numbers(value: Any, of: Input, where: str) -> np.ndarray:
    """Returns the numbers of an item, or of an embedding."""
    try:
        row = np.ma.filled(np.ma.array(value, np.float32), np.nan)
    except (TypeError, ValueError):
        row = np.zeros(0)
    finite = "" if of.name == FEATURES else "finite "
    if row.shape != (of.width,) or (finite and not np.isfinite(row).all()):
        raise ValueError(f"{where} is {value!r}, expected {of.width} {finite}numbers.")
    return row


def _text(value: Any, of: Input, where: str) -> bytes:
    """Returns the bytes of a value, as in training; empty if it is missing."""
    is_float = isinstance(value, (float, np.floating))
    is_missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    if is_missing or (is_float and np.isnan(value)):
        return b""
    if is_float and float(value).is_integer() and of.most:
        value = int(value)
    text = value
    if isinstance(value, (str, int, np.integer, np.bool_)) or (
        is_float and not of.most
    ):
        text = str(value).encode("utf-8", "surrogatepass")
    if not isinstance(text, bytes) or (of.is_integer and not _WHOLE.fullmatch(text)):
        text_or = "" if of.is_integer else "a text or "
        raise ValueError(f"{where} is {value!r}, expected {text_or}a whole number.")
    return text


def _padded(parts: Any, shape: Sequence[int], fill: Any) -> Any:
    """Returns lists of a shape, which begin with given ones."""
    less = shape[0] - len(parts)
    if len(shape) == 1:
        return [*parts, *[fill] * less] if less else parts
    return [_padded(part, shape[1:], fill) for part in (*parts, *[()] * less)]
