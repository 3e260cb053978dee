"""Settings of an experiment."""

from __future__ import annotations

import dataclasses
import os

from pipelines.experiments import selection
from tfr_ext.core.settings import HIGHEST_SEED, Settings, setting
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.training.data_config import DEFAULT_SEED


@dataclasses.dataclass(frozen=True)
class ExperimentConfig(Settings):
    """Which methods are trained on which folds with which seeds, and how."""

    output_dir: str | None = setting(
        None, "Directory that gets everything.", group="experiment", kind="path"
    )
    method: tuple[str, ...] = setting(
        (),
        "A method as NAME: FLAGS, the flags of `train` that make it. {a|b} in a flag "
        "is a choice, and the candidates are all combinations. Repeatable; several of "
        "one NAME add up.",
        group="experiment",
        kind="repeated",
    )
    folds: tuple[str, ...] = setting(
        ("1",),
        "Names of the folds, for {fold} in any flag.",
        group="experiment",
        kind="texts",
    )
    seeds: tuple[int, ...] = setting(
        (DEFAULT_SEED,),
        "Seeds.",
        group="experiment",
        kind="integers",
        low=0,
        high=HIGHEST_SEED,
    )
    selection_seeds: int = setting(
        1,
        "How many of the first `seeds` every candidate is trained with. The chosen one "
        "is trained with all.",
        group="experiment",
        low=1,
    )
    select_by: str | None = setting(
        None,
        "Validation metric by which a candidate is chosen for each method and fold; "
        "`monitor` if left out.",
        group="experiment",
        kind="text",
        convert=plain_name,
    )
    select_for: str = setting(
        selection.FOLD,
        "'fold' chooses a candidate for each fold by its own validation queries, 'all' "
        "one for all folds by the mean over their validation queries. With "
        "cross-validation folds these are test queries of other folds: 'all' is less "
        "noisy, and common, but not blind.",
        group="experiment",
        choices=(selection.FOLD, selection.ALL),
    )
    cells_dir: str | None = setting(
        None,
        "Directory of the cells, which experiments may share; 'cells' in `output_dir` "
        "if left out.",
        group="experiment",
        kind="path",
    )
    jobs: int = setting(2, "Processes at a time.", group="experiment", low=1)
    threads: int = setting(
        1,
        "Threads of each process for one operation. The last digits of results depend "
        "on it.",
        group="experiment",
        low=1,
    )
    keep_models: bool = setting(
        False,
        "Keep each cell's checkpoints, export and TensorBoard.",
        group="experiment",
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: if one is wrong.
        """
        super().__post_init__()
        for name in ("seeds", "folds"):
            values = list(getattr(self, name))
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"`{name}` must be different values. Received: {values}."
                )

    def cells_directory(self) -> str:
        """Returns the directory of the cells, whether it is given or not."""
        return self.cells_dir or os.path.join(self.output_dir or "", "cells")
