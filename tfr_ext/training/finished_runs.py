"""Exports finished runs without training them again; its settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from tfr_ext.core.files import check_may_write
from tfr_ext.core.messages import say
from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.models.combination import COMBINATIONS
from tfr_ext.runs import outputs, run_directory, run_file
from tfr_ext.serving import model_file, run_export
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import heads, restoring


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Settings of an export: of which runs, and to where.

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
    encoder: str | None = setting(
        None,
        "Directory of the encoder that made the embeddings of the run (`embed`): the "
        "export then has it inside, and a request the text of the query.",
        group="export",
        kind="path",
    )
    embed_documents: bool = setting(
        False,
        "With `encoder`, requests have the texts of documents too, in place of their "
        "embeddings.",
        group="export",
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: If a setting is wrong or missing.
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

        if self.embed_documents and self.encoder is None:
            raise ValueError("`embed_documents` needs an `encoder`.")

    @property
    def version_directory(self) -> str:
        """The directory of the versions."""
        if self.export_dir is not None:
            return self.export_dir
        return f"{self.model_dir[0].rstrip('/')}/export"


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """Result of an export.

    Attributes:
        signatures: names of the signatures of the model.
        paths: the directory of the new version, as 'version'.
    """

    signatures: list[str]
    paths: Mapping[str, str]


def export_runs(config: ExportConfig) -> ExportResult:
    """Exports the model of a finished run, or those of several as one.

    The data is read again, by the settings in the `flags.cfg` of each run, and must be
    what it was. The version appears when it gives the scores that the run wrote.

    Args:
        config: the settings.

    Returns:
        The signatures of the model, and where it is.

    Raises:
        ValueError: If a directory has no finished run, its data has changed, the runs
            do not take the same features, or the export scores differently.
        OSError: If a file cannot be read or written.

    Examples:
        >>> import os, tempfile
        >>> from tfr_ext.training import (
        ...     DataConfig, ExportConfig, LossConfig, ModelConfig, TrainingConfig,
        ...     export_runs, train)
        >>> folder = tempfile.TemporaryDirectory()
        >>> runs = [os.path.join(folder.name, name) for name in "ab"]
        >>> for seed, run in enumerate(runs):
        ...     _ = train(TrainingConfig(
        ...         data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5,
        ...                         seed=seed),
        ...         model=ModelConfig(hidden_sizes=(4,)),
        ...         loss=LossConfig("list_net_loss"), num_epochs=1, model_dir=run,
        ...         export_model=False, verbose="silent"))  # doctest: +ELLIPSIS
        train: 12 queries, ...
        >>> result = export_runs(ExportConfig(
        ...     model_dir=runs, export_dir=os.path.join(folder.name, "both"))
        ... )  # doctest: +ELLIPSIS
        train: 12 queries, ...
        Exported for serving: .../both/1
        >>> result.signatures[:3]
        ['elwc', 'masked', 'rank']
        >>> folder.cleanup()
    """
    if config.export_dir is not None:
        check_may_write(config.export_dir)
    runs = [_restored(directory) for directory in config.model_dir]
    version = run_export.export_models(
        *(runs, config.version_directory, config.ensemble),
        *(config.encoder, config.embed_documents),
    )
    say(f"Exported for serving: {version}")
    return ExportResult(model_file.read(version)["signatures"], {"version": version})


def _restored(directory: str) -> run_export.ExportedRun:
    """Reads a finished run: its settings, its data, its best model and its results."""
    text = run_directory.flag_file(directory)
    if not run_file.is_of_training(text, TrainingConfig.COMMAND):
        raise ValueError(
            f"{given('model_dir', directory)} holds no training run: it has no "
            "flags.cfg that training wrote."
        )
    if run_file.is_in_memory(text):
        raise ValueError(
            f"The run in {directory} was trained on lists in memory, which no file "
            "has. Export its model in Python: export_ranker(result.model, ...)."
        )
    report = os.path.join(directory, "metrics.json")
    if not os.path.exists(report):
        raise ValueError(
            f"The run in {directory} is not finished. Start the same training again: "
            "it goes on from the last epoch."
        )
    try:
        settings = run_file.settings(text, TrainingConfig)
    except ValueError as error:
        raise ValueError(
            f"{os.path.join(directory, 'flags.cfg')}: {error} Train the model again."
        ) from error
    config = dataclasses.replace(settings, model_dir=directory, overwrite=False)
    splits = data_splits.load(config.data)
    run_directory.RunDirectory(config).check_data(splits.digest)
    head = heads.from_config(config).with_values(
        splits.train, config.evaluation.max_label
    )
    return run_export.ExportedRun(
        config.sized(splits.train.num_lists),
        splits,
        restoring.best_model(config, splits, head),
        outputs.read_metrics(report),
    )
