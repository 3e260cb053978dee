"""Settings for the export of runs that have finished."""

from __future__ import annotations

import dataclasses

from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.models.combination import COMBINATIONS


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """An export: of which runs, and to where.

    Examples:
        >>> ExportConfig(model_dir="models/a").version_directory
        'models/a/export'
    """

    model_dir: tuple[str, ...] = setting(
        (),
        "Directories of finished runs, separated by commas. The scores of several "
        "models, such as those of other seeds, are combined (`ensemble`).",
        group="export",
        kind="paths",
    )
    export_dir: str | None = setting(
        None,
        "Directory to which the next version is written, as TensorFlow Serving expects "
        "it. If left out, export/ in the directory of a single run.",
        group="export",
        kind="path",
    )

    ensemble: str = setting(
        "mean",
        "What several models give as one: the 'mean' of their scores; the mean of "
        "their scores standardised within each list ('zscore'); or the mean of their "
        "ranks, with a minus sign ('rank').",
        group="export",
        choices=COMBINATIONS,
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: if a setting is wrong or missing.
        """
        super().__post_init__()
        if not self.model_dir:
            raise ValueError("`model_dir` must name the directory of a finished run.")
        if len(self.model_dir) > 1 and self.export_dir is None:
            raise ValueError(
                "`export_dir` must be given for several runs: it names the directory "
                "of the model that combines them."
            )
        if len(self.model_dir) == 1 and self.ensemble != "mean":
            raise ValueError(
                f"{given('ensemble', self.ensemble)} has no meaning with one run."
            )

    @property
    def version_directory(self) -> str:
        """The directory of the versions."""
        if self.export_dir is not None:
            return self.export_dir
        return f"{self.model_dir[0].rstrip('/')}/export"
