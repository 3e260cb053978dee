"""Rebuilds models of finished runs from their best epochs, and exports them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping

import tensorflow as tf

from tfr_ext.core.files import check_may_write
from tfr_ext.core.messages import say, silent
from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.core.system import process_state
from tfr_ext.models.categories import Vocabulary, vocabularies
from tfr_ext.models.combination import COMBINATIONS, combined_model
from tfr_ext.models.expected_grade import with_expected_grade
from tfr_ext.models.layers import FeatureNoise
from tfr_ext.models.ranking_model import RankingModelBuilder, model_builder
from tfr_ext.models.transforms.transform_forms import (
    FeatureTransforms,
    feature_transforms,
)
from tfr_ext.runs import outputs, run_directory, run_file
from tfr_ext.runs.run_progress import read_progress
from tfr_ext.serving import model_file, run_export
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import checkpoints, heads, members, training_checks

# Added to the seed of a run for that of the noise.
_NOISE_SEED = 1 << 16


def builder(
    config: TrainingConfig,
    splits: data_splits.Splits,
    head: heads.Head,
    known: Mapping[str, Vocabulary] | None = None,
) -> RankingModelBuilder:
    """Returns the builder of the model of a run.

    Args:
        config: the settings.
        splits: the lists, whose statistics some transforms need.
        head: the output, with its values.
        known: the vocabularies, if they have been made.
    """
    train, model = splits.train, config.model
    if known is None:
        with silent():  # What there is to say was said in training.
            known = vocabularies(train, model.vocabulary_size, model.min_count)
    return model_builder(
        train.num_features,
        head.scorer(training_checks.network(config, head)),
        _transforms(config, splits) if train.num_features else None,
        train.spec,
        known,
    )


def _transforms(
    config: TrainingConfig, splits: data_splits.Splits
) -> FeatureTransforms | None:
    """Returns the transforms of features that precede the scorer."""
    names, noise = list(config.model.feature_transforms), config.model.feature_noise
    missing = splits.filling(config.data)
    layers = []
    if names or missing:
        layers += feature_transforms(names, splits.train, missing).layers
    if noise:
        # Apart from the seeds of the dropout, one for each layer of the network.
        layers.append(FeatureNoise(noise, config.data.seed + _NOISE_SEED))
    return FeatureTransforms(layers) if layers else None


@process_state.as_before()
def best_model(
    config: TrainingConfig, splits: data_splits.Splits, head: heads.Head
) -> tf.keras.Model:
    """Returns a model with the weights of the best epoch, which scores `[batch, list]`.

    The checkpoints are in `config.model_dir`, and the head must have its values.
    """
    if config.num_models > 1:
        models = [best_model(one, splits, head) for one in members.configs(config)]
        return combined_model(models, config.ensemble)
    saved = os.path.join(config.model_dir or "", "checkpoints")
    progress = read_progress(saved)
    if progress is None:
        raise ValueError(f"{saved} has no checkpoint of the finished run.")
    with precision(config.mixed_precision):
        model = builder(config, splits, head).build()
    checkpoints.restore_best(model, saved, progress)
    if head.trained_values is not None:
        model = with_expected_grade(model, head.trained_values)
    return model


@contextlib.contextmanager
def precision(mixed_precision: str) -> Iterator[None]:
    """Applies a `TrainingConfig.mixed_precision` to layers created in this context."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(
        "float32" if mixed_precision == "none" else f"mixed_{mixed_precision}"
    )
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Settings of an export: of which runs, and to where.

    Examples:
        >>> ExportConfig(model_dir="models/a").version_directory
        'models/a/export'
    """

    GROUP = "export"

    model_dir: tuple[str, ...] = setting(
        (),
        "Directories of finished runs, separated by commas. The scores of several "
        "models, such as those of other seeds, are combined (`ensemble`).",
        kind="paths",
    )
    export_dir: str | None = setting(
        None,
        "Directory to which the next version is written, as TensorFlow Serving expects "
        "it. If left out, export/ in the directory of a single run.",
        kind="path",
    )

    ensemble: str = setting(
        "mean",
        "What several models give as one: the 'mean' of their scores; the mean of "
        "their scores standardised within each list ('zscore'); or the mean of their "
        "ranks, with a minus sign ('rank').",
        choices=COMBINATIONS,
    )
    encoder: str | None = setting(
        None,
        "Directory of the encoder that made the embeddings of the run (`embed`): the "
        "export then has it inside, and a request the text of the query.",
        kind="path",
    )
    embed_documents: bool = setting(
        False,
        "With `encoder`, requests have the texts of documents too, in place of their "
        "embeddings.",
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
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
        best_model(config, splits, head),
        outputs.read_metrics(report),
    )
