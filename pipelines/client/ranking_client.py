"""The base class of the REST and gRPC clients."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.client import answers
from pipelines.client.request_inputs import Input, checked_mapping


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
        """Asks the server about the model.

        Raises:
            ServingError: If the server is gone, does not have the model, or that is no
                exported ranker.
        """
        self.target = target
        metadata = self._metadata()
        self.version = metadata.version
        self.num_features = metadata.num_features(target)
        self._ranks = answers.RANK_SIGNATURE in metadata.widths
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

        Args:
            signature: 'masked', or 'ids' for a batch of lists in memory.
            inputs: all its inputs, of which one is `mask`.
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
        if topn is not None and topn < 1:
            raise ValueError(f"`topn` must be an integer >= 1. Received: {topn}.")
        inputs, real = self._inputs(features, mask)
        batch, size = real.shape
        wanted = np.full([batch], size if topn is None else min(topn, size), np.int32)
        if not self._ranks:  # Exported before there was this signature.
            scores = self.scored(answers.MASKED_SIGNATURE, inputs)
            return scores, answers.best_first(scores, real, wanted)
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
