"""Trains, evaluates and exports a ranker.

python -m pipelines.train --flagfile=configs/quickstart.cfg
"""

from __future__ import annotations

import dataclasses
import os

import tensorflow as tf
import tensorflow_ranking as tfr
from absl import flags

import tfr_ext
from pipelines import command
from pipelines.flags import shared_flags, training_flags
from tfr_ext import data, evaluation, models
from tfr_ext.core.files import write_atomically
from tfr_ext.training import (
    export,
    lock,
    outputs,
    pipeline,
    run_directory,
    training_checks,
)
from tfr_ext.training.sources import checksums, data_splits, wanted_labels

FLAGS = shared_flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    shared_flags.define_metric_flags()
    training_flags.define_training_flags()
    for module in (shared_flags, training_flags):  # so that --helpshort lists them
        flags.adopt_module_key_flags(module)


def train() -> None:
    """Trains as the flags say and leaves all files in --model_dir."""
    strategy = prepare_tensorflow()
    checked = training_checks.check_flags()
    # Of several workers one writes: the others are not alone in its directory.
    if pipeline.is_writer(strategy):
        with lock.alone(FLAGS.model_dir, "training"):
            train_alone(strategy, checked)
    else:
        train_alone(strategy, checked)


def train_alone(
    strategy: tf.distribute.Strategy | None, checked: training_checks.Checked
) -> None:
    """Trains in a directory that no other training has.

    Args:
        strategy: the strategy, if there is one.
        checked: what the flags say.
    """
    loss_params, loss_schedules, head = (
        checked.loss_params,
        checked.loss_schedules,
        checked.head,
    )
    names, convention, wanted = checked.names, checked.convention, checked.labels
    directory = run_directory.RunDirectory()
    directory.check()
    source = checksums.DigestedSource(FLAGS)
    splits = data_splits.load(FLAGS, source)
    directory.check_data(source.hexdigest())
    if not FLAGS.overwrite and directory.is_finished:
        print(f"The run in {FLAGS.model_dir} is finished: there is nothing to do.")
        if FLAGS.export_model and not os.path.exists(directory.files.path("export")):
            print("It has no export, as --noexport_model was given then.")
        return
    everything = [splits.train, splits.valid, splits.test]
    highest = wanted.highest(FLAGS.max_label, everything)
    convention = dataclasses.replace(convention, max_label=highest)
    head = head.with_values(splits.train, FLAGS.max_label)
    loss_params = head.loss_params(FLAGS.loss, loss_params)
    wanted_labels.check_max_label(FLAGS.loss, loss_params, everything)
    if wanted_labels.needs_max_label(FLAGS.loss, loss_params):
        loss_params = {**loss_params, "max_label": highest}
        print(f"--loss_param=max_label={highest:g}, as it is not given.")
    for line in wanted_labels.warnings(
        splits.train,
        [*names, FLAGS.monitor],
        convention,
        tfr_ext.losses.get(FLAGS.loss, **loss_params),
        training_flags.lambda_threshold(loss_params),
    ):
        print(f"Warning: {line}")
    datasets = pipeline.ListsDatasetBuilder(
        splits.train,
        splits.valid,
        FLAGS.batch_size,
        FLAGS.seed,
        label_sampling(highest),
        num_grades=head.num_grades if head.trained_values else None,
        max_padding=FLAGS.max_padding or None,
        elwc_features=splits.elwc_features,
    )
    print(
        f"{datasets.train.num_batches:,} batches of up to {FLAGS.batch_size} lists; "
        f"padded / real items {datasets.train.padding_waste():.2f}"
    )
    transforms = None
    if FLAGS.feature_transforms:
        transforms = models.feature_transforms(FLAGS.feature_transforms, splits.train)
    ranking = pipeline.RankingPipeline(
        models.model_builder(
            splits.train.num_features,
            head.scorer(training_checks.network(head)),
            transforms,
        ),
        datasets,
        pipeline.RankingHparams(
            model_dir=FLAGS.model_dir,
            num_epochs=FLAGS.num_epochs,
            steps_per_epoch=None,
            validation_steps=None,
            learning_rate=FLAGS.learning_rate,
            learning_rate_schedule=FLAGS.learning_rate_schedule,
            loss=FLAGS.loss,
            loss_params=loss_params,
            loss_schedules=loss_schedules,
            optimizer=FLAGS.optimizer,
            early_stopping_patience=FLAGS.early_stopping_patience,
            monitor=FLAGS.monitor,
            convention=convention,
            jit_compile=FLAGS.jit_compile,
            grade_values=head.trained_values,
            label_values=wanted.values or head.label_values(splits.train),
            loss_diagnostics=FLAGS.loss_diagnostics,
            checkpoint_epochs=FLAGS.checkpoint_epochs,
            resume=not FLAGS.overwrite and directory.has_trained,
        ),
        strategy,
        directory.begin,
    )
    trained = ranking.train_and_validate(training_flags.keras_verbosity())
    if ranking.is_writer:
        directory.begin()
        report(directory, trained, splits, names, convention, wanted)
    ranking.wait_for_all()


def label_sampling(max_label: float) -> data.LabelTransform | None:
    """Returns what draws the training labels, if the flags want it."""
    if FLAGS.label_sampling == "none":
        return None
    return data.BinomialLabels(
        num_trials=FLAGS.num_label_trials,
        max_label=max_label,
        seed=FLAGS.seed,
        per_epoch=FLAGS.label_sampling == "epoch",
    )


def prepare_tensorflow() -> tf.distribute.Strategy | None:
    """Sets what TensorFlow takes at the start only, and returns the strategy."""
    if FLAGS.logical_cpus > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * FLAGS.logical_cpus,
        )
    tf.keras.utils.set_random_seed(FLAGS.seed)
    tf.config.experimental.enable_op_determinism()
    # Set in any case: a process may train several times.
    half = FLAGS.mixed_precision
    tf.keras.mixed_precision.set_global_policy(
        "float32" if half == "none" else f"mixed_{half}"
    )
    return tfr.keras.strategy_utils.get_strategy(
        training_flags.STRATEGIES[FLAGS.strategy]
    )


def report(
    run: run_directory.RunDirectory,
    trained: pipeline.Trained,
    splits: data_splits.Splits,
    names: list[str],
    convention: evaluation.Convention,
    wanted: wanted_labels.Labels,
) -> None:
    """Evaluates and exports the model; writes and prints the results."""
    directory = FLAGS.model_dir
    run.files.remove(run_directory.RESULTS)  # Left by a process that was killed.
    scores = {
        name: data.score_lists(trained.model, lists, FLAGS.batch_size)
        for name, lists in (("valid", splits.valid), ("test", splits.test))
    }
    values = evaluation.per_query(splits.test, scores["test"], names, convention)
    results = {
        "valid": evaluation.means(
            evaluation.per_query(splits.valid, scores["valid"], names, convention)
        ),
        "test": evaluation.means(values),
    }
    outputs.write_history(directory, trained.history)
    outputs.write_per_query(directory, splits.test, values)
    outputs.write_trec(directory, splits.test, scores["test"], FLAGS.loss)
    if FLAGS.draw_curves:
        outputs.draw_curves(
            os.path.join(directory, "curves.png"),
            trained.history,
            FLAGS.monitor,
            trained.best_epoch,
        )
    exported = None
    if FLAGS.export_model:
        exported = export.export_ranker(
            trained.model,
            os.path.join(directory, "export"),
            convention.max_label,
            splits.elwc_features,
        )
    # Last: a run that has it is finished.
    write_atomically(
        os.path.join(directory, "metrics.json"),
        outputs.as_json(
            {
                **results,
                "convention": convention.as_dict(),
                "labels": wanted.describe(),
                "queries": {
                    "valid": splits.valid.num_lists,
                    "test": splits.test.num_lists,
                },
                "eval_list_size": splits.eval_cuts,
                "epochs": len(trained.history["loss"]),
                "best_epoch": trained.best_epoch,
                "loss": FLAGS.loss,
                "seed": FLAGS.seed,
                "versions": {
                    "tfr_ext": tfr_ext.__version__,
                    "tensorflow": tf.__version__,
                },
            }
        ),
    )
    print(
        f"Best epoch by validation {FLAGS.monitor}: {trained.best_epoch} of "
        f"{len(trained.history['loss'])}. {convention.describe()}\n"
        f"{outputs.metric_table(results)}"
        + f"\nWritten in {directory}: {', '.join(run.files.present())}"
        + (f"\nExported for serving: {exported}" if exported else "")
    )


if __name__ == "__main__":
    define_flags()
    command.run(train, goes_on=True)
