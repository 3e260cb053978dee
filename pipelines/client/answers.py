"""Checks of requests and answers, shared by the REST and gRPC clients."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

# What NumPy would make numbers of.
_NOT_NUMBERS = (
    *(str, bytes, complex),
    *(np.datetime64, np.timedelta64, np.complexfloating),
)
FEATURES, MASK, TOPN = "float_features", "mask", "topn"
SCORES, ORDER = "scores", "order"
MASKED_SIGNATURE, RANK_SIGNATURE = "masked", "rank"
# Those that only a model with categories has.
IDS_SIGNATURE, FEATURES_SIGNATURE = "ids", "features"

# Bytes that any answer may have, such as an error or the signatures of a model.
MOST_BYTES = 1 << 20
# Bytes of a number of an answer: as JSON it has up to 24 digits and signs, and a comma,
# a newline and blanks around it. A list needs as much for its brackets.
_NUMBER_BYTES = 64
# Characters of a message of a server that errors repeat.
_LONGEST = 2000
_SERVER = re.compile(r"(?:[\w.-]+|\[[\w:.%-]+\]):(\d{1,5})", re.ASCII)


class ServingError(OSError):
    """A server is gone, refuses a request, or gives an answer of another kind."""

    def __init__(self, text: str):
        """Takes a message, which may quote the server.

        It becomes one line without control characters, and is cut if it is long.
        """
        text = " ".join(text.split())
        shown = text[:_LONGEST]
        shown = "".join(x if x.isprintable() else ascii(x)[1:-1] for x in shown)
        left = len(text) - _LONGEST
        super().__init__(f"{shown} [... {left:,} characters]" if left > 0 else shown)


class UnknownError(ServingError):
    """A server does not have the model, or the version of it, that is asked for."""


class UnavailableError(ServingError):
    """A server cannot be reached. The request can be tried again."""


class DeadlineError(ServingError):
    """A server did not answer in time."""


@dataclasses.dataclass(frozen=True)
class Target:
    """The server and model of requests, in plain HTTP or gRPC, and time limits.

    The fields are the arguments of `RankingClient.connect`, which says what they mean.
    """

    server: str
    model_name: str
    version: int | None = None
    label: str | None = None
    deadline: float = 60.0
    retries: int = 3

    def __post_init__(self) -> None:
        """Checks the values."""
        found = _SERVER.fullmatch(self.server)
        if not found or not 0 < int(found[1]) < 65536:
            raise ValueError(
                "`server` must be host:port, as in localhost:8500. It speaks plain "
                "HTTP or gRPC, and may be a proxy that adds TLS. Received: "
                f"{self.server!r}."
            )
        for what, name in (("model_name", self.model_name), ("label", self.label)):
            if name is not None and not _is_name(name):
                raise ValueError(
                    f"`{what}` must be a name without blanks, slashes, colons and "
                    f"control characters, and not '.' or '..'. Received: {name!r}."
                )
        if self.version is not None and self.label is not None:
            raise ValueError(
                f"The version is {self.version} and the label is {self.label!r}. Give "
                "one of them only."
            )
        if self.version is not None and not 0 <= self.version < 1 << 63:
            raise ValueError(
                f"The version must be an integer >= 0. Received: {self.version}."
            )
        if not 0 < self.deadline < float("inf"):
            raise ValueError(
                f"`deadline` must be seconds > 0. Received: {self.deadline}."
            )
        if not 0 <= self.retries <= 4:
            raise ValueError(
                f"`retries` must be an integer from 0 to 4. Received: {self.retries}."
            )

    @property
    def place(self) -> str:
        """The version that is asked for, in words."""
        which = f"model {self.model_name!r}"
        if self.version is not None:
            return f"version {self.version} of {which}"
        if self.label is not None:
            return f"version {self.label!r} of {which}"
        return which

    def raise_unknown(self, versions: Sequence[int]) -> NoReturn:
        """Raises the error of a model or version that the server does not have."""
        if not versions:
            raise UnknownError(
                f"The server at {self.server} has no model {self.model_name!r}."
            )
        having = ", ".join(map(str, sorted(versions)))
        text = f"The server at {self.server} has no {self.place}"
        raise UnknownError(f"{text}. It has the versions: {having}.")

    def refused(self, text: str) -> ServingError:
        """Returns the error of a request that the server refuses."""
        return ServingError(f"The server at {self.server} refused the request: {text}")

    def unreachable(self, text: str) -> UnavailableError:
        """Returns the error of a server that is gone."""
        return UnavailableError(f"The server at {self.server} is not there: {text}")

    def late(self) -> DeadlineError:
        """Returns the error of a request that took too long."""
        return DeadlineError(
            f"The server at {self.server} did not answer within {self.deadline:g} "
            "seconds. Give it more time with `deadline`, or send fewer items at a time."
        )

    def strange(self, text: str) -> ServingError:
        """Returns the error of an answer of an unexpected form."""
        return ServingError(
            f"The answer of the server at {self.server} cannot be used: {text}"
        )

    def too_long(self, most: int) -> ServingError:
        """Returns the error of an answer of more bytes than expected."""
        return self.strange(f"it has more than {most:,} bytes.")

    def check_model(self, name: str, version: int) -> None:
        """Raises the error of an answer of another model or version."""
        of_another = self.version is not None and version != self.version
        if name != self.model_name or version < 0 or of_another:
            raise self.strange(
                f"it is of version {version} of model {name!r}, not of {self.place}."
            )


def _is_name(text: str) -> bool:
    return text.isprintable() and not {*text} & {*"/: "} and text.strip(".") != ""


def most_bytes(shape: tuple[int, ...], outputs: Collection[str]) -> int:
    """Returns how many bytes an answer with outputs `[batch, list]` can have."""
    batch, size = shape
    return MOST_BYTES + len(outputs) * batch * (size + 1) * _NUMBER_BYTES


@dataclasses.dataclass(frozen=True)
class Metadata:
    """Metadata of a version of a model, as the server gives it.

    By signature, `widths` has the number of features that it takes, None if it takes no
    features as numbers, and `outputs` the names of what it gives.
    """

    version: int
    widths: Mapping[str, int | None]
    outputs: Mapping[str, Collection[str]]

    def num_features(self, target: Target) -> int:
        """Returns the number of features that the signature for scores takes.

        It is 0 if no feature is a number.
        """
        if MASKED_SIGNATURE not in self.widths:
            raise ServingError(
                f"The {target.place} at {target.server} has no signature "
                f"{MASKED_SIGNATURE!r}. It has: "
                f"{', '.join(sorted(self.widths)) or 'none'}."
            )
        width = self.widths[MASKED_SIGNATURE]
        if width is None and FEATURES_SIGNATURE in self.widths:
            width = 0
        elif width is None or width < 1:
            raise target.strange(
                f"its signature {MASKED_SIGNATURE!r} has no {FEATURES!r} of a known "
                "width."
            )
        # Over REST, an answer that is one tensor does not say its name.
        if SCORES not in self.outputs[MASKED_SIGNATURE]:
            raise target.strange(
                f"its signature {MASKED_SIGNATURE!r} gives no {SCORES!r}."
            )
        return width


def as_numbers(values: Any) -> np.ndarray:
    """Returns a new array of float32, NaN where one is masked or None.

    A text, a time or a complex number is a ValueError.
    """
    found = np.ma.array(values)
    kinds = {found.dtype.type}
    if found.dtype == object:
        kinds = {*map(type, found.flat)}
    if any(issubclass(kind, _NOT_NUMBERS) for kind in kinds):
        raise ValueError("there are texts, times or complex numbers")
    try:
        with np.errstate(over="ignore"):
            return np.ma.filled(found.astype(np.float32), np.nan)
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{error}") from error


def checked_inputs(
    features: Any, mask: Any | None, num_features: int
) -> tuple[np.ndarray, np.ndarray]:
    """Checks the features and the mask of a request, and returns them.

    The features are numbers `[batch, list, features]`; they become float32, 0 at
    padding. The mask is `[batch, list]`, True at real items; by default, all are real.

    Examples:
        >>> checked_inputs([[[1.0, 2.0]]], None, 3)
        Traceback (most recent call last):
        ValueError: The lists have 2 features, but the model takes 3.
    """
    try:
        array = as_numbers(features)
    except ValueError as error:
        raise ValueError(
            f"The features must be numbers [batch, list, features]: {error}."
        ) from error
    if array.ndim != 3:
        raise ValueError(
            "The features must have the shape [batch, list, features]. Received: "
            f"{list(array.shape)}."
        )
    shape = array.shape[:2]
    real = np.ones(shape, bool) if mask is None else np.asarray(mask)
    if real.dtype != bool or real.shape != shape:
        raise ValueError(
            f"The mask must be boolean and have the shape {list(shape)}, as the "
            f"features do. Received: {real.dtype} of the shape {list(real.shape)}."
        )
    if not real.size or not real.any(axis=1).all():
        empty = int(np.argmin(real.any(axis=1))) if real.size else 0
        raise ValueError(f"List {empty} has no items; there is nothing to rank.")
    if array.shape[2] != num_features:
        raise ValueError(
            f"The lists have {array.shape[2]} features, but the model takes "
            f"{num_features}."
        )
    array[~real] = 0
    for q, item, feature in np.argwhere(np.isinf(array))[:1]:
        raise ValueError(
            f"Feature {feature} of item {item} of list {q} (all from 0) is infinite as "
            "float32, expected a finite number."
        )
    return array, real


def checked_scores(found: Any, mask: np.ndarray, target: Target) -> np.ndarray:
    """Returns the float32 scores `[batch, list]` of an answer, finite at real items."""
    scores = _numbers(found, np.float32, mask, target, SCORES)
    wrong = np.argwhere(~np.isfinite(scores) & mask)
    if len(wrong):
        one, item = wrong[0].tolist()
        value = str(scores[one, item]).replace("nan", "NaN")
        raise target.strange(f"the score of item {item} of list {one} is {value}.")
    scores[~mask] = np.finfo(np.float32).min
    return scores


def checked_order(
    found: Any, mask: np.ndarray, topn: np.ndarray, target: Target
) -> np.ndarray:
    """Returns the int32 order `[batch, list]` of an answer.

    For list i it must have the positions of `topn[i]` real items, or of all if there
    are fewer, each once, and then -1.
    """
    order = _numbers(found, np.int64, mask, target, ORDER)
    for positions, real, number in zip(order, mask, np.minimum(mask.sum(axis=1), topn)):
        head, tail = positions[:number], positions[number:]
        fine = (head >= 0).all() and (tail == -1).all() and (head < len(real)).all()
        if not fine or len({*head.tolist()}) != number or not real[head].all():
            raise target.strange(
                f"{ORDER!r} has {positions.tolist()[:20]}, which are not positions of "
                f"items, {number} in all, each once, and then -1."
            )
    return order.astype(np.int32)


def _numbers(
    found: Any, kind: type, mask: np.ndarray, target: Target, name: str
) -> np.ndarray:
    """Returns numbers of an answer: an array, or lists of JSON."""
    is_json = not isinstance(found, np.ndarray)
    try:
        # As objects: NumPy would take booleans among numbers for numbers.
        array = np.array(found, object) if is_json else found
        kinds = (
            {type(x).__name__ for x in array.flat} if is_json else {array.dtype.name}
        )
        wanted = "float" if kind is np.float32 else "int"
        allowed = ("float", "int") if kind is np.float32 else ("int",)
        fine = all(x.rstrip("0123456789") in allowed for x in kinds)
        if fine and array.shape == mask.shape:
            with np.errstate(over="ignore"):
                return array.astype(kind)
    except (OverflowError, ValueError):  # Huge integers, or rows of several lengths.
        raise target.strange(f"{name!r} is not an array.") from None
    raise target.strange(
        f"{name!r} must be {wanted}32 of the shape {list(mask.shape)}, but is "
        f"{' and '.join(sorted(kinds)[:3])} of the shape {list(array.shape)[:9]}."
    )
