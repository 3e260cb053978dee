"""Trains, evaluates and exports a ranker.

python -m pipelines.train --flagfile=configs/quickstart.cfg
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl import app, logging  # noqa: E402

import tfr_ext  # noqa: E402
from pipelines import flags as shared_flags  # noqa: E402
from pipelines import inputs, outputs  # noqa: E402
from tfr_ext import data, export, metrics, models, pipeline  # noqa: E402

FLAGS = shared_flags.FLAGS

shared_flags.define_data_flags()
shared_flags.define_metric_flags()
shared_flags.define_training_flags()


def main(argv: list[str]) -> None:
    """Runs the command.

    Args:
        argv: what is left of the command line: its name alone.
    """
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {' '.join(argv[1:])}")
    if not FLAGS["verbosity"].present:
        # TensorFlow's own progress reports would bury ours.
        logging.set_verbosity(logging.WARNING)
        tf.get_logger().setLevel("WARNING")
    try:
        train()
    except (ValueError, OSError, FloatingPointError) as error:
        # Something that the user can mend: the message says it all.
        sys.exit(f"Error: {error}")


def train() -> None:
    """Trains as the flags say and leaves all files in --model_dir."""
    tf.keras.utils.set_random_seed(FLAGS.seed)
    tf.config.experimental.enable_op_determinism()
    names = metrics.parse_names(FLAGS.metrics)
    loss_params = shared_flags.parse_parameters(FLAGS.loss_param, "loss_param")
    tfr_ext.losses.get(FLAGS.loss, **loss_params)  # fail before reading the data
    metrics.parse_names([FLAGS.monitor])
    splits = inputs.load(FLAGS)
    convention = metrics.Convention(
        gain=FLAGS.gain,
        empty_list=FLAGS.empty_list,
        relevance_threshold=FLAGS.relevance_threshold,
        max_label=FLAGS.max_label or float(splits.train.labels.max()) or 1.0,
    )
    datasets = pipeline.ListsDatasetBuilder(
        splits.train, splits.valid, FLAGS.batch_size, FLAGS.seed
    )
    print(
        f"{datasets.train.num_batches:,} batches of up to {FLAGS.batch_size} lists; "
        f"padded / real items {datasets.train.padding_waste():.2f}"
    )
    scorer = models.MLPScorer(
        hidden_sizes=shared_flags.parse_integers(FLAGS.hidden_sizes, "hidden_sizes"),
        batch_normalization=FLAGS.batch_normalization,
        batch_norm_momentum=FLAGS.batch_norm_momentum,
        dropout=FLAGS.dropout,
    )
    trained = pipeline.RankingPipeline(
        models.model_builder(splits.train.num_features, scorer),
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
            optimizer=FLAGS.optimizer,
            early_stopping_patience=FLAGS.early_stopping_patience,
            monitor=FLAGS.monitor,
            convention=convention,
        ),
    ).train_and_validate({"silent": 0, "bar": 1, "line": 2}[FLAGS.verbose])
    report(trained, splits, names, convention)


def report(
    trained: pipeline.Trained,
    splits: inputs.Splits,
    names: list[str],
    convention: metrics.Convention,
) -> None:
    """Evaluates and exports the model; writes and prints the results."""
    directory = FLAGS.model_dir
    scores = {
        name: predict(trained.model, lists, FLAGS.batch_size)
        for name, lists in (("valid", splits.valid), ("test", splits.test))
    }
    values = metrics.per_query(splits.test, scores["test"], names, convention)
    results = {
        "valid": metrics.means(
            metrics.per_query(splits.valid, scores["valid"], names, convention)
        ),
        "test": metrics.means(values),
    }
    outputs.write_evaluation(directory, splits.test, scores["test"], values, FLAGS.loss)
    outputs.write_json(
        os.path.join(directory, "metrics.json"),
        {
            **results,
            "convention": {
                "gain": convention.gain,
                "empty_list": convention.empty_list,
                "relevance_threshold": convention.relevance_threshold,
                "max_label": convention.max_label,
                "ties": "by position",
            },
            "queries": {"valid": splits.valid.num_lists, "test": splits.test.num_lists},
            "epochs": len(trained.history["loss"]),
            "best_epoch": trained.best_epoch,
            "loss": FLAGS.loss,
            "seed": FLAGS.seed,
            "versions": {"tfr_ext": tfr_ext.__version__, "tensorflow": tf.__version__},
        },
    )
    outputs.draw_curves(
        os.path.join(directory, "curves.png"),
        trained.history,
        FLAGS.monitor,
        trained.best_epoch,
    )
    with open(os.path.join(directory, "flags.cfg"), "w", encoding="utf-8") as file:
        file.write(
            shared_flags.as_flag_file(
                "Runs again by: python -m pipelines.train --flagfile=THIS_FILE "
                "--model_dir=ANOTHER_DIRECTORY"
            )
        )
    exported = export.export_ranker(trained.model, os.path.join(directory, "export"))
    print(
        f"Best epoch by validation {FLAGS.monitor}: {trained.best_epoch} of "
        f"{len(trained.history['loss'])}. Lists without a relevant item count as: "
        f"{convention.empty_list}; NDCG gain: {convention.gain}; ties by position.\n"
        f"{outputs.metric_table(results)}\nExported for serving: {exported}"
    )


def predict(
    model: tf.keras.Model, lists: data.RankingLists, batch_size: int
) -> np.ndarray:
    """Scores all items, in the order of `lists`."""
    scores = np.empty(lists.num_items, np.float32)
    for chosen in data.BatchedLists(lists, batch_size).order(0):
        features, _ = data.padded_batch(lists, chosen)
        batch = model(features, training=False).numpy()
        items = slice(lists.row_splits[chosen[0]], lists.row_splits[chosen[-1] + 1])
        scores[items] = batch[features[data.MASK]]
    return scores


if __name__ == "__main__":
    app.run(main)
