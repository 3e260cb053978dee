"""A scorer on a model server, with the interface of `ExportedScorer`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from pipelines.client.answers import IDS_SIGNATURE, ServingError, Target
from pipelines.client.grpc_client import GrpcClient
from pipelines.client.ranking_client import RankingClient
from pipelines.client.rest import RestClient
from pipelines.start import tensorflow_import  # noqa: F401
from tfr_ext.core.settings import Settings, setting
from tfr_ext.data.batches.batching import FEATURES, MASK, score_lists
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.lists import RankingLists
from tfr_ext.scoring.loaded_scorers import check_features

_CLIENTS: dict[str, type[RankingClient]] = {"grpc": GrpcClient, "rest": RestClient}


@dataclasses.dataclass(frozen=True)
class ServerConfig(Settings):
    """A model of a server, instead of an export.

    Examples:
        >>> config = ServerConfig(server="localhost:8500", model_name="ranker")
        >>> config.target().place
        "model 'ranker'"
    """

    GROUP = "server"

    server: str | None = setting(
        None,
        "Address of a model server, such as TensorFlow Serving, as host:port: its port "
        "for gRPC, usually 8500, or with `protocol='rest'` the one for REST, usually "
        "8501.",
        kind="text",
    )
    model_name: str | None = setting(
        None, "Name under which the server has the model.", kind="text"
    )
    protocol: str = setting(
        "grpc",
        "How the server is asked. 'grpc' needs tensorflow-serving-api.",
        choices=("grpc", "rest"),
    )
    model_version: int | None = setting(
        None,
        "Version of the model. If left out, the latest when the command starts.",
        kind="integer",
        low=0,
    )
    model_label: str | None = setting(
        None,
        "Label of the version, such as 'stable', instead of `model_version`.",
        kind="text",
    )
    deadline: float = setting(
        60.0,
        "Seconds until a request must be answered, with all that is tried again.",
        low=0.001,
        high=86_400,
    )
    retries: int = setting(
        3,
        "How often a request is tried again if the server cannot be reached.",
        low=0,
        high=4,
    )

    def __post_init__(self) -> None:
        """Checks that the settings are right and fit each other."""
        super().__post_init__()
        if self.server is None:
            for field in dataclasses.fields(self):
                if getattr(self, field.name) != field.default:
                    raise ValueError(f"`{field.name}` has no meaning without `server`.")
            return
        if self.model_name is None:
            raise ValueError(
                "`server` needs `model_name`, the name under which the server has the "
                "model."
            )
        if self.model_version is not None and self.model_label is not None:
            raise ValueError(
                "`model_version` and `model_label` cannot be given together: each "
                "names a version."
            )
        self.target()

    def target(self) -> Target:
        """Returns the target of a client, for which there must be a server."""
        if self.server is None or self.model_name is None:
            raise ValueError("`server` and `model_name` must be given.")
        return Target(
            self.server,
            self.model_name,
            self.model_version,
            self.model_label,
            self.deadline,
            self.retries,
        )


class ServerScorer:
    """A ranker on a server, of which one version scores all lists.

    `feature_names` and `spec` are None if all features are numbers.
    """

    feature_names: Sequence[str] | None = None
    spec: FeatureSpec | None = None

    def __init__(self, config: ServerConfig):
        """Connects to the server."""
        kind = _CLIENTS[config.protocol]
        try:
            with kind(config.target()) as found:
                version = found.version
            # Another version may become the latest, or get the label, in the middle.
            pinned = dataclasses.replace(config.target(), version=version, label=None)
            self._client = kind(pinned)
        except ImportError as error:
            raise ValueError(f"{error}") from error
        self.num_features = self._client.num_features
        if self._client.about is not None:
            self.spec = FeatureSpec.from_json(self._client.about["features"])
            self.feature_names = self.spec.feature_names
            self.num_features = self.spec.num_features

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def scores(self, lists: RankingLists, batch_size: int) -> np.ndarray:
        """Returns float32 scores `[num_items]`, in the order of the items."""

        def score(x: Mapping[str, np.ndarray]) -> np.ndarray:
            if self.spec is not None:
                return self._client.scored(IDS_SIGNATURE, x)
            return self._client.scores(x[FEATURES], x[MASK])

        try:
            return score_lists(score, lists, batch_size)
        except ServingError as error:
            if "NaN feature" in str(error):
                check_features(lists)  # Names the query.
            raise
