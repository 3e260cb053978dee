"""Settings of the fusion of runs."""

from __future__ import annotations

import dataclasses

from tfr_ext.core.settings import Settings, given, nested, setting
from tfr_ext.evaluation.fusion import FUSIONS, RRF_K, checked_weights
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.training.config import MetricsConfig

# Chooses the weights on validation lists.
VALID = "valid"


@dataclasses.dataclass(frozen=True)
class FusionConfig(Settings):
    """A fusion: of which runs, by which rule and weights.

    Examples:
        >>> FusionConfig(runs=("a", "b"), weights="0.3,0.7").given_weights
        (0.3, 0.7)
        >>> FusionConfig(runs=("a", "b"), weights="1,2,3")
        Traceback (most recent call last):
        ValueError: `weights` must have a weight for each of the 2 runs. Received: 3.
    """

    runs: tuple[str, ...] = setting(
        (),
        "Runs to fuse: directories that `train`, `evaluate` or `fuse` wrote, or TREC "
        "run files.",
        group="evaluation",
        kind="paths",
    )
    metrics: MetricsConfig = nested(MetricsConfig)
    fusion: str = setting(
        "zscore",
        "What a run adds to the score of a document: its 'zscore' (the score, "
        "standardised within the query), minus its 'rank', or the reciprocal rank, "
        "'rrf': 1 / (`rrf_k` + rank).",
        group="evaluation",
        choices=FUSIONS,
    )
    rrf_k: float = setting(
        RRF_K,
        "The constant of `fusion='rrf'`; the larger, the less the top ranks count.",
        group="evaluation",
        low=0.0,
    )
    weights: str = setting(
        "",
        "Weight of each run, such as 0.3,0.7, or 'valid' for those that are best by "
        "`monitor` on the validation lists, among an even grid of weights. If left "
        "out, all runs have the same weight.",
        group="evaluation",
    )
    monitor: str = setting(
        "ndcg_10",
        "Validation metric by which `weights='valid'` chooses.",
        group="evaluation",
        convert=plain_name,
    )
    qrels: str | None = setting(
        None,
        "TREC judgements of the test queries. If left out, the qrels.trec of the runs "
        "that are directories.",
        group="data",
        kind="path",
    )
    valid_qrels: str | None = setting(
        None,
        "TREC judgements of the validation queries. If left out, the qrels.valid.trec "
        "of the runs that are directories.",
        group="data",
        kind="path",
    )
    output_dir: str | None = setting(
        None, "Directory to which the files are written.", group="run", kind="path"
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: if one is wrong, or two do not fit each other.
        """
        super().__post_init__()
        if not self.runs:
            raise ValueError("`runs` must name at least one run to fuse.")
        twice = [run for run in self.runs if self.runs.count(run) > 1]
        if twice:
            raise ValueError(f"`runs`: {twice[0]} is given twice.")
        if self.rrf_k != RRF_K and self.fusion != "rrf":
            raise ValueError(
                f"{given('rrf_k', self.rrf_k)} has no meaning with "
                f"{given('fusion', self.fusion)}."
            )
        weights = self.given_weights
        if weights is not None:
            checked_weights(weights, len(self.runs))

    @property
    def given_weights(self) -> tuple[float, ...] | None:
        """The weights, if numbers are given.

        Raises:
            ValueError: if `weights` is something else.
        """
        if self.weights in ("", VALID):
            return None
        try:
            return tuple(float(text) for text in self.weights.split(","))
        except ValueError:
            raise ValueError(
                "`weights` must be numbers, separated by commas, or 'valid'. "
                f"Received: {self.weights!r}."
            ) from None
