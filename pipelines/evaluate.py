"""Evaluates an exported model, or a TREC run, on judged lists.

python -m pipelines.evaluate --dataset=text --test_path=FILE --export=DIR
python -m pipelines.evaluate --dataset=text --test_path=FILE --run=FILE

Prints the mean of each metric; with --output_dir also writes `metrics.json` and
`per_query.tsv`, and for a model `run.trec` and `qrels.trec`.
"""

from __future__ import annotations

import dataclasses
import os

from absl import flags

from pipelines import command, inputs, labels, long_lists, outputs
from pipelines import flags as shared_flags
from tfr_ext import checkpoints, export, metrics

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    shared_flags.define_metric_flags()
    flags.adopt_module_key_flags(shared_flags)  # so that --helpshort lists them
    flags.DEFINE_string(
        "export",
        None,
        "A SavedModel that `pipelines.train` exported, or a directory of versions of "
        "it, of which the latest is taken.",
    )
    flags.DEFINE_string("run", None, "A TREC run file, in place of a model.")
    flags.DEFINE_string("output_dir", None, "Directory that gets the files.")
    flags.DEFINE_integer(
        "batch_size", 128, "Lists that the model scores at a time.", lower_bound=1
    )


def evaluate() -> None:
    """Evaluates as the flags say."""
    if (FLAGS.export is None) == (FLAGS.run is None):
        raise ValueError("Give either --export or --run.")
    cut = long_lists.LongLists(FLAGS, "test")
    if FLAGS.eval_list_size is not None and FLAGS.export is None:
        raise ValueError(
            "--eval_list_size is for an --export: it cuts lists before they are scored."
        )
    names = metrics.parse_names(FLAGS.metrics)
    convention = shared_flags.convention()
    for name in names:
        convention.objective(name)
    scorer = None if FLAGS.export is None else export.load_scorer(FLAGS.export)
    lists = inputs.load_test(FLAGS, None if scorer is None else scorer.num_features)
    lists = cut(lists)
    print(inputs.describe("test", lists))
    if cut.num_cut:
        print(cut.describe())
    wanted = labels.from_flags(FLAGS)
    highest = wanted.highest(FLAGS.max_label, [lists])
    if FLAGS.max_label is None and scorer is not None:
        # The test lists alone may lack the highest grade of their collection.
        highest = max(highest, scorer.max_label or 0.0)
    convention = dataclasses.replace(convention, max_label=highest)
    if scorer is not None:
        scores = scorer.scores(lists, FLAGS.batch_size)
    else:
        lists, scores = metrics.read_run(FLAGS.run, lists)
    values = metrics.per_query(lists, scores, names, convention)
    results = {"test": metrics.means(values)}
    if FLAGS.output_dir is not None:
        os.makedirs(FLAGS.output_dir, exist_ok=True)
        outputs.write_per_query(FLAGS.output_dir, lists, values)
        if scorer is not None:
            outputs.write_trec(FLAGS.output_dir, lists, scores, "tfr_ext")
        checkpoints.write_atomically(
            os.path.join(FLAGS.output_dir, "metrics.json"),
            outputs.as_json(
                {
                    **results,
                    "convention": convention.as_dict(),
                    "labels": wanted.describe(),
                    "queries": {"test": lists.num_lists},
                    "eval_list_size": FLAGS.eval_list_size and {"test": cut.as_dict()},
                }
            ),
        )
    print(f"{convention.describe()}\n{outputs.metric_table(results)}")


if __name__ == "__main__":
    define_flags()
    command.run(evaluate)
