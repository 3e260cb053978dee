"""The base class of the REST and gRPC clients."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from pipelines.client import answers


class RankingClient(abc.ABC):
    """Scores and ranks lists with a model of a server.

    Attributes:
        target: the server and the model.
        version: the number of the version that answered when the client connected.
        num_features: number of features that the model takes.
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
            features: numbers `[batch, list, features]`.
            mask: `[batch, list]`, True at real items; all items are real by default.

        Raises:
            ValueError: If these are not what the model takes.
            ServingError: If the server does not give scores.
        """
        inputs, real = self._inputs(features, mask)
        found = self._predict(answers.MASKED_SIGNATURE, inputs, (answers.SCORES,))
        return answers.checked_scores(found[answers.SCORES], real, self.target)

    def rank(
        self, features: Any, mask: Any | None = None, topn: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns scores, and positions of items, the best first.

        Args:
            features: numbers `[batch, list, features]`.
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
            scores = self.scores(inputs[answers.FEATURES], real)
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
