"""The base class of the REST and gRPC clients, and what requests hold."""

from __future__ import annotations

import abc
import difflib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pipelines.client import answers
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

    `given` has the values of each input by its name. The mask is `[batch, list]`, True
    at real items; by default, all are real. Returns the inputs of the signature for
    scores, padding being 0 and empty, and the mask.
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
        row = answers.as_numbers(value)
    except ValueError:
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


class RankingClient(abc.ABC):
    """Scores and ranks lists with a model of a server.

    Attributes:
        target: the server and the model.
        version: the number of the version that answered when the client connected.
        num_features: number of features that the model takes as `float_features`.
        inputs: names of its other features.
        about: its `features` and `inputs`, as in `model.json`; None without others.
    """

    def __init__(self, target: answers.Target):
        """Asks the server about the model, which must be an exported ranker."""
        self.target = target
        metadata = self._metadata()
        self.version = metadata.version
        self.num_features = metadata.num_features(target)
        self.about: Mapping[str, Any] | None = None
        name, one = answers.FEATURES_SIGNATURE, np.ones([1, 1], bool)
        try:
            if name in metadata.widths:
                found = self._predict(name, {answers.MASK: one}, (name,))[name]
                self.about = json.loads(np.array(found, object).item())
            self._takes = _inputs_of(self.num_features, self.about)
        except (KeyError, RecursionError, TypeError, ValueError):
            text = f"{name!r} is not what an export says of its features."
            raise target.strange(text) from None
        self.inputs = [x.name for x in self._takes if x.name != answers.FEATURES]

    @classmethod
    def connect(
        cls,
        server: str,
        model_name: str,
        *,
        version: int | None = None,
        label: str | None = None,
        deadline: float = 60.0,
        retries: int = 3,
    ) -> RankingClient:
        """Returns a client for a model.

        Args:
            server: the address of the protocol, as 'host:port'.
            model_name: the name under which the server has the model.
            version: the version; the latest by default.
            label: the label of the version, instead of its number.
            deadline: seconds that a request may take, with everything that is tried
                again.
            retries: how often a request is tried again if the server cannot be reached.

        Raises:
            ValueError: If an argument is wrong.
            ServingError: If the server is gone, or does not have the model.
            ImportError: If the client needs a package that is missing; the message says
                how to install it.

        Examples:
            >>> from pipelines.client import rest
            >>> rest.connect("127.0.0.1", "ranker")
            Traceback (most recent call last):
            ValueError: `server` must be host:port, as in localhost:8500. ...
        """
        return cls(
            answers.Target(server, model_name, version, label, deadline, retries)
        )

    def __enter__(self) -> RankingClient:
        """Returns this client, which is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the connection."""
        self.close()

    def scores(self, features: Any, mask: Any | None = None) -> np.ndarray:
        """Returns float32 scores `[batch, list]`; padding has the lowest float.

        Args:
            features: numbers `[batch, list, features]`; or a mapping of these, as
                `float_features`, and of the values of each other feature by its name:
                `[batch, list]`, of the context `[batch]`, with one axis more for
                several values, or for the numbers of an embedding. Other values are
                texts, bytes or whole numbers; '' and None are missing. Lists of a
                mapping may have different lengths.
            mask: `[batch, list]`, True at real items; all items are real by default.

        Raises:
            ValueError: If these are not what the model takes.
            ServingError: If the server does not give scores.
        """
        return self.scored(answers.MASKED_SIGNATURE, self._inputs(features, mask)[0])

    def scored(self, signature: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns scores, see `scores`, of inputs that are right.

        The signature is 'masked', or 'ids' for a batch of lists in memory.
        """
        found = self._predict(signature, inputs, (answers.SCORES,))[answers.SCORES]
        return answers.checked_scores(found, inputs[answers.MASK], self.target)

    def rank(
        self, features: Any, mask: Any | None = None, topn: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns scores, and positions of items, the best first.

        Args:
            features: see `scores`.
            mask: `[batch, list]`, True at real items; all items are real by default.
            topn: how many items of each list are wanted; all by default.

        Returns:
            Scores `[batch, list]`, and int32 `[batch, list]`: the positions of at most
            `topn` items, equal scores in the order of the items, and then -1.

        Raises:
            ValueError: If these are not what the model takes.
            ServingError: If the server does not give ranks.
        """
        is_count = isinstance(topn, (int, np.integer)) and not isinstance(topn, bool)
        if topn is not None and not (is_count and topn >= 1):
            raise ValueError(f"`topn` must be an integer >= 1. Received: {topn!r}.")
        inputs, real = self._inputs(features, mask)
        batch, size = real.shape
        wanted = np.full([batch], size if topn is None else min(topn, size), np.int32)
        found = self._predict(
            answers.RANK_SIGNATURE,
            {**inputs, answers.TOPN: wanted},
            (answers.SCORES, answers.ORDER),
        )
        return (
            answers.checked_scores(found[answers.SCORES], real, self.target),
            answers.checked_order(found[answers.ORDER], real, wanted, self.target),
        )

    def _inputs(
        self, features: Any, mask: Any | None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        if self.inputs or isinstance(features, Mapping):
            return checked_mapping(features, mask, self._takes)
        array, real = answers.checked_inputs(features, mask, self.num_features)
        return {answers.FEATURES: array, answers.MASK: real}, real

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the connection."""

    @abc.abstractmethod
    def _metadata(self) -> answers.Metadata:
        """Returns the metadata of the model."""

    @abc.abstractmethod
    def _predict(
        self, signature: str, inputs: Mapping[str, np.ndarray], wanted: tuple[str, ...]
    ) -> Mapping[str, Any]:
        """Returns the wanted outputs of a signature."""


def _inputs_of(num_features: int, about: Any) -> list[Input]:
    """Returns the inputs of a model, but for the mask; of JSON that may be wrong."""
    numbers = answers.FEATURES
    found = [Input(numbers, numbers, ("batch", "list", "features"), num_features)]
    for each in () if about is None else about["features"]:
        if each["kind"] != "number":
            name, key = each["name"], str(about["inputs"][each["name"]])
            axes = ["batch"] + ["list"] * (not each["context"])
            most = each["width"] * (each["kind"] == "category")
            axes += ["values"] * (most > 1)
            as_text = bool(each.get("as_text"))
            width = each["width"] * (each["kind"] == "embedding" and not as_text)
            axes += ["features"] * (width > 0)
            name = key if name == numbers or as_text else name
            is_integer = most > 0 and each["is_integer"]  # A text may have several.
            found.append(Input(name, key, axes, width, is_integer, most))
    if num_features < 1 and not any("list" in x.axes for x in found[1:]):
        raise ValueError
    return found[num_features < 1 :]
