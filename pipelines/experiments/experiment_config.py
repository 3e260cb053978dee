"""Settings of an experiment."""

from __future__ import annotations

import dataclasses
import os

from pipelines.experiments import selection
from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.core.settings import Settings, setting
from tfr_ext.evaluation.queries import plain_name
from tfr_ext.settings.data_config import DEFAULT_SEED


@dataclasses.dataclass(frozen=True)
class ExperimentConfig(Settings):
    """Which methods are trained on which folds with which seeds, and how."""

    GROUP = "experiment"

    output_dir: str | None = setting(
        None,
        "Directory to which all files of the experiment are written.",
        kind="path",
    )
    method: tuple[str, ...] = setting(
        (),
        "A method, as NAME: FLAGS, with the flags of `train` that define it, or as "
        "NAME: COMMAND FLAGS, with those of another command that trains, or as "
        "NAME: run --run_path=FILE, for a TREC run of another program. {a|b} in a flag "
        "is a choice, and all combinations of choices are candidates. "
        "Repeatable; the candidates of all methods with the same NAME add up.",
        kind="repeated",
    )
    folds: tuple[str, ...] = setting(
        ("1",), "Names of the folds, which replace {fold} in any flag.", kind="texts"
    )
    seeds: tuple[int, ...] = setting(
        (DEFAULT_SEED,),
        "Seeds with which each chosen candidate is trained.",
        kind="integers",
        low=0,
        high=HIGHEST_SEED,
    )
    selection_seeds: int = setting(
        1,
        "How many of the `seeds`, from the first, every candidate is trained with. "
        "The chosen candidate is trained with all.",
        low=1,
    )
    select_by: str | None = setting(
        None,
        "Validation metric by which a candidate is chosen for each method and fold. "
        "If left out, `monitor`.",
        kind="text",
        convert=plain_name,
    )
    select_for: str = setting(
        selection.FOLD,
        "'fold' chooses a candidate for each fold by that fold's validation queries; "
        "'all' chooses one candidate for all folds by the mean over their validation "
        "queries. In cross-validation these are test queries of other folds: 'all' is "
        "less noisy, and common, but it has seen test queries.",
        choices=(selection.FOLD, selection.ALL),
    )
    cells_dir: str | None = setting(
        None,
        "Directory of the cells, which several experiments may share. If left out, "
        "'cells' in `output_dir`.",
        kind="path",
    )
    jobs: int = setting(2, "Number of processes that train at the same time.", low=1)
    threads: int = setting(
        1,
        "Number of threads that each process uses for one operation. The last digits "
        "of the results depend on it.",
        low=1,
    )
    keep_models: bool = setting(
        False, "Keep the checkpoints, the export and the TensorBoard logs of each cell."
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        for name in ("seeds", "folds"):
            values = list(getattr(self, name))
            if not values or len(set(values)) < len(values):
                raise ValueError(
                    f"`{name}` must have at least one value, and none twice. Received: "
                    f"{values}."
                )

    def cells_directory(self) -> str:
        """Returns the directory of the cells: the given one, or the default."""
        return self.cells_dir or os.path.join(self.output_dir or "", "cells")
