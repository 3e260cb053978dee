"""Trains as the settings say: from data to an evaluated and exported model."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfr_ext.core import messages
from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.core.system import process_state
from tfr_ext.models.combination import combined_model
from tfr_ext.runs import outputs
from tfr_ext.runs.run_directory import RunDirectory
from tfr_ext.runs.run_progress import read_progress
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits
from tfr_ext.training import (
    checkpoints,
    fitter,
    lists_datasets,
    member_processes,
    members,
    parameter_servers,
    replicas,
    restoring,
    run_steps,
    served_fitter,
    training_checks,
    user_callbacks,
)


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        metrics: the mean of each metric, by split ('valid' and 'test'); empty for a
            worker that leaves the evaluation to another.
        history: per epoch, the loss and metrics in training and validation; empty if
            a finished run was found whose checkpoints are gone.
        best_epoch: the best epoch by the monitored metric, counted from 1.
        paths: the files and directories of the run, by name; 'export' has the versions
            of the exported model.
        load_model: makes `model`.
    """

    metrics: Mapping[str, Mapping[str, float | None]]
    history: Mapping[str, list[float]]
    best_epoch: int
    paths: Mapping[str, str]
    load_model: Callable[[], tf.keras.Model] = dataclasses.field(repr=False)

    @functools.cached_property
    def model(self) -> tf.keras.Model:
        """A model with the weights of the best epoch, whose output is `[batch, list]`.

        Raises:
            ValueError: If a finished run was found whose checkpoints are gone.
        """
        return self.load_model()


def train(
    config: TrainingConfig,
    splits: data_splits.Splits | None = None,
    callbacks: Sequence[tf.keras.callbacks.Callback] = (),
) -> TrainingResult:
    """Trains, evaluates and exports a ranker, and leaves all files in `model_dir`.

    If it was interrupted, the next call goes on with the run; if the run is finished,
    it returns the results of that run. It sets TensorFlow's seed and enables its
    determinism in this process, and leaves Keras's policy of mixed precision and the
    global random numbers of NumPy and Python as they were. With `verbose="silent"`,
    what looks wrong with the labels or the loss is a UserWarning, else it is printed.

    Args:
        config: the settings, with `model_dir`.
        splits: lists to train, validate and test on, in memory. The settings of labels
            and of long lists apply to them as to lists from files. By default, lists
            are read as the settings of the data say.
        callbacks: Keras callbacks that `fit` gets after those of the settings. No file
            of the run records them, so a run that goes on may have others.

    Returns:
        The metrics, the history, the best model and where the files are.

    Raises:
        ValueError: If settings or data are wrong, or `model_dir` holds something else.
        OSError: If a file cannot be read or written.
        FloatingPointError: If the loss becomes NaN or infinite.

    Examples:
        >>> import tempfile
        >>> from tfr_ext.training import (
        ...     DataConfig, LossConfig, ModelConfig, TrainingConfig, train)
        >>> folder = tempfile.TemporaryDirectory()
        >>> result = train(TrainingConfig(
        ...     data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
        ...     model=ModelConfig(hidden_sizes=(4,)),
        ...     loss=LossConfig("smoothi_loss", {"alpha": 2.0}),
        ...     num_epochs=2, model_dir=folder.name, verbose="silent",
        ...     draw_curves=False, export_model=False))  # doctest: +ELLIPSIS
        train: 12 queries, 60 items of 25 features, ...
        >>> len(result.history["loss"]), 0 < result.metrics["test"]["ndcg_10"] <= 1
        (2, True)
        >>> result.model.input["float_features"].shape[-1]
        25
        >>> folder.cleanup()
    """
    if config.model_dir is None:
        raise ValueError("`model_dir` must be given: training writes its files there.")
    with contextlib.ExitStack() as stack:
        if config.verbose == "silent":
            stack.enter_context(messages.issuing_warnings())
        stack.enter_context(process_state.as_before())
        return _train(config, splits, callbacks)


def _train(
    config: TrainingConfig,
    splits: data_splits.Splits | None,
    callbacks: Sequence[tf.keras.callbacks.Callback],
) -> TrainingResult:
    """Trains, or serves the processes that train."""
    _choose_devices(config)
    if replicas.serves(config.strategy):
        parameter_servers.serve(lambda: RunDirectory(config).is_finished)
        return TrainingResult({}, {}, 0, {}, _no_model)
    strategy = _prepare_tensorflow(config)
    inputs = run_steps.RunInputs(config, splits)
    user_callbacks.check_objects(callbacks)
    if callbacks and min(config.num_models, config.parallel_models) > 1:
        raise ValueError(
            "`callbacks` cannot be passed to the processes of "
            f"{given('parallel_models', config.parallel_models)}. Name them in "
            "`config.callbacks`, or train one model at a time."
        )
    return _Run(config, strategy, inputs, callbacks).train_alone()


def _no_model() -> tf.keras.Model:
    raise ValueError("This process served another, the chief, which has the model.")


def keras_verbosity(verbose: str) -> int:
    """Returns Keras's `verbose` for that of `TrainingConfig`."""
    if verbose == "bar" and not messages.takes_bars():
        return 2
    return {"silent": 0, "bar": 1, "line": 2}[verbose]


def _choose_devices(config: TrainingConfig) -> None:
    """Sets what must be set before TensorFlow starts."""
    wanted = config.strategy == "mirrored" and config.logical_cpus == 1
    replicas.choose_gpus(config.gpus, config.memory_growth, wanted)
    if config.logical_cpus > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * config.logical_cpus,
        )


def _prepare_tensorflow(config: TrainingConfig) -> tf.distribute.Strategy | None:
    """Makes TensorFlow deterministic, and returns the strategy."""
    tf.keras.utils.set_random_seed(config.data.seed)
    tf.config.experimental.enable_op_determinism()
    return replicas.strategy(config.strategy)


class _Run:
    """A run in a directory that no other training uses."""

    def __init__(
        self,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy | None,
        inputs: run_steps.RunInputs,
        callbacks: Sequence[tf.keras.callbacks.Callback] = (),
        before_writing: Callable[[], None] = lambda: None,
    ):
        assert config.model_dir is not None
        self._config = config
        self._strategy = strategy
        self._inputs = inputs
        self._callbacks = callbacks
        self._before_writing = before_writing
        in_memory = inputs.given is not None
        self._directory = RunDirectory(config, in_memory)

    def train_alone(self) -> TrainingResult:
        """Trains while no other process trains in the directory."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(restoring.precision(self._config.mixed_precision))
            # Only one of several workers writes; the others share its directory.
            if replicas.is_writer(self._strategy):
                stack.enter_context(self._directory.alone())
            return self.train()

    def train(self) -> TrainingResult:
        """Trains, or returns the results of a finished run."""
        config, inputs, directory = self._config, self._inputs, self._directory
        directory.check(data_splits.paths(config.data))
        inputs.load()
        directory.check_data(inputs.splits.digest)
        found = directory.finished()
        if found is not None:
            return self._found(found)
        self._config = config = config.sized(inputs.splits.train.num_lists)
        if config.num_models > 1:
            trained, models = self._train_members()
        else:
            fitting = self._fitter()
            trained = fitting.train_and_validate(keras_verbosity(config.verbose))
            models = []
        metrics, paths = {}, {}
        if replicas.is_writer(self._strategy):
            self._begin()
            # Left by a process that was killed.
            directory.files.remove(outputs.RESULTS)
            metrics = run_steps.write_report(
                config, inputs, directory.files, trained, models
            )
            paths = self._paths()
        replicas.wait_for_all(self._strategy)
        return TrainingResult(
            metrics, trained.history, trained.best_epoch, paths, lambda: trained.model
        )

    def _begin(self) -> None:
        """Claims the directory before anything is written; later calls do nothing."""
        self._before_writing()
        self._directory.begin()

    def _train_members(self) -> tuple[checkpoints.Trained, list[dict[str, Any]]]:
        """Trains the models of an ensemble; returns it and their reports."""
        config, inputs = self._config, self._inputs
        # They print and warn once, for all models.
        assert inputs.loss_params is not None and inputs.vocabularies is not None
        configs = members.configs(config)
        if config.parallel_models > 1:
            member_processes.train(
                config, configs, train_member, inputs.given, self._begin
            )
            # They are finished: what follows reads their results.
            configs = [dataclasses.replace(one, overwrite=False) for one in configs]
        results, models = [], []
        for number, one in enumerate(configs, 1):
            name = members.name(config, number)
            if config.parallel_models == 1:
                say(f"{name}:")
            tf.keras.utils.set_random_seed(one.data.seed)
            run = _Run(one, self._strategy, inputs, self._callbacks, self._begin)
            with messages.silent():
                results.append(run.train_alone())
            found = outputs.read_metrics(run._directory.files.path("metrics.json"))
            models.append(members.report(one, found))
            value = found["valid"].get(config.monitor)
            formatted = (
                "" if value is None else f"; there, {config.monitor} is {value:.4f}"
            )
            say(
                f"{name}: best epoch by validation {config.monitor}: "
                f"{found['best_epoch']} of {found['epochs']}{formatted}."
            )
        history = members.mean_history([one.history for one in results])
        model = combined_model([one.model for one in results], config.ensemble)
        best = members.best_epoch(history, config.monitor)
        return checkpoints.Trained(model, history, best), models

    def _fitter(self) -> fitter.Fitter:
        config, inputs = self._config, self._inputs
        head, splits, convention = inputs.head, inputs.splits, inputs.convention
        datasets = lists_datasets.ListsDatasets(
            splits.train,
            splits.valid,
            config.batch_size,
            config.data.seed,
            training_checks.label_sampling(config, convention.max_label),
            num_grades=head.num_grades if head.trained_values else None,
            max_padding=config.max_padding or None,
        )
        say(
            f"{datasets.train.num_batches:,} batches of up to {config.batch_size} "
            "lists; ratio of padded to real items: "
            f"{datasets.train.padding_waste():.2f}"
        )
        kind = fitter.Fitter
        if replicas.has_servers(self._strategy):
            kind = served_fitter.ServedFitter
        return kind(
            restoring.builder(config, splits, head, inputs.vocabularies),
            datasets,
            config,
            self._strategy,
            self._begin,
            [*(make() for make in inputs.checked.callbacks), *self._callbacks],
            loss_params=inputs.loss_params,
            convention=convention,
            grade_values=head.trained_values,
            label_values=inputs.checked.labels.values
            or head.label_values(splits.train),
            resume=not config.overwrite and self._directory.has_trained,
        )

    def _found(self, found: Mapping[str, Any]) -> TrainingResult:
        """Returns the results of a finished run."""
        paths, config, inputs = self._paths(), self._config, self._inputs
        if config.export_model and "export" not in paths:
            say("It has no export, because it was trained with `export_model=False`.")
        histories = []
        for one in members.configs(config) if config.num_models > 1 else [config]:
            saved = os.path.join(one.model_dir or "", "checkpoints")
            progress = read_progress(saved)
            histories += [] if progress is None else [progress.history]
        whole = len(histories) == config.num_models
        return TrainingResult(
            {split: found[split] for split in ("valid", "test")},
            members.mean_history(histories) if whole else {},
            found.get("best_epoch", 0),
            paths,
            lambda: restoring.best_model(config, inputs.splits, inputs.head),
        )

    def _paths(self) -> dict[str, str]:
        """Returns where the files of the run are, by their names."""
        files = self._directory.files
        export = files.path("export")
        return files.paths() | ({"export": export} if os.path.isdir(export) else {})


def train_member(
    config: TrainingConfig,
    splits: data_splits.Splits | None,
    before_writing: Callable[[], None],
) -> None:
    """Trains a model of an ensemble, in a process of its own.

    `splits` are lists in memory; without them, it reads those of the settings.
    """
    _choose_devices(config)
    strategy = _prepare_tensorflow(config)
    inputs = run_steps.RunInputs(config, splits)
    _Run(config, strategy, inputs, (), before_writing).train_alone()
