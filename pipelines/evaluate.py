"""Evaluates an exported model, a TREC run, or scores in a file, on judged lists.

python -m pipelines.evaluate --dataset=text --test_path=FILE --export=DIR
python -m pipelines.evaluate --dataset=text --test_path=FILE --run=FILE
python -m pipelines.evaluate --dataset=text --test_path=FILE --scores=FILE

Prints the mean of each metric, by which convention, and how many queries its rule for
empty lists concerns. With --output_dir also writes `metrics.json`, `per_query.tsv`,
`run.trec`, `qrels.trec` and `flags.cfg`.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import flags

from pipelines import command
from pipelines.flags import flag_types, path_flags, shared_flags
from tfr_ext import data, evaluation, objectives
from tfr_ext.core.files import write_atomically
from tfr_ext.training import export, outputs, written
from tfr_ext.training.sources import data_splits, long_lists, wanted_labels

FLAGS = flags.FLAGS

_SOURCES = ("export", "run", "scores")
_FILES = ("metrics.json", "per_query.tsv", "run.trec", "qrels.trec", "flags.cfg")
_COMMENT = "# Runs again by: python -m pipelines.evaluate --flagfile=THIS_FILE"


@dataclasses.dataclass(frozen=True)
class Scored:
    """Lists and their scores.

    Attributes:
        lists: the lists, with what a run has beyond those that are judged.
        scores: one score per item.
        tag: name of the run.
        counts: what `metrics.json` has about a run.
        ties: how items of one score rank.
    """

    lists: data.RankingLists
    scores: np.ndarray
    tag: str = "tfr_ext"
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    ties: str = evaluation.TIES_BY_POSITION


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    shared_flags.define_metric_flags()
    flags.adopt_module_key_flags(shared_flags)  # so that --helpshort lists them
    path_flags.define(
        "export",
        "A SavedModel that `pipelines.train` exported, or a directory of versions of "
        "it, of which the latest is taken.",
    )
    path_flags.define("run", "A TREC run file, in place of a model.")
    path_flags.define(
        "scores",
        "A file of scores, in place of a model: a number on each line, or an array in "
        "a file named *.npy, one for each item of the test lists in their order.",
    )
    path_flags.define("output_dir", "Directory that gets the files.")
    flags.DEFINE_bool(
        "print_per_query", False, "Print the metrics of each query before the means."
    )
    flag_types.define_integer(
        "batch_size", 128, "Lists that the model scores at a time.", lower_bound=1
    )


def evaluate() -> None:
    """Evaluates as the flags say."""
    check_source()
    files = output_files()
    if files is not None:
        given = (FLAGS.export, FLAGS.run, FLAGS.scores)
        files.check([*filter(None, given), *data_splits.paths(FLAGS)])
    cut = long_lists.LongLists(FLAGS, "test")
    if FLAGS.eval_list_size is not None and FLAGS.export is None:
        raise ValueError(
            "--eval_list_size is for an --export: it cuts lists before they are scored."
        )
    names = evaluation.parse_names(FLAGS.metrics)
    convention = shared_flags.convention()
    for name in names:
        convention.objective(name)
    scorer = None if FLAGS.export is None else export.load_scorer(FLAGS.export)
    judged = data_splits.load_test(
        FLAGS, None if scorer is None else scorer.num_features
    )
    judged = cut(judged)
    print(data_splits.describe("test", judged))
    if cut.num_cut:
        print(cut.describe())
    wanted = wanted_labels.from_flags(FLAGS)
    highest = wanted.highest(FLAGS.max_label, [judged])
    if (
        FLAGS.max_label is None
        and scorer is not None
        and wanted == wanted_labels.AS_GIVEN
    ):
        # The test lists alone may lack the highest grade of their collection.
        highest = max(highest, scorer.max_label or 0.0)
    convention = dataclasses.replace(convention, max_label=highest)
    scored = score(judged, scorer)
    convention = dataclasses.replace(convention, ties=scored.ties)
    # Skipped, empty lists are seen.
    skipping = dataclasses.replace(convention, empty_list="skip")
    found = evaluation.per_query(scored.lists, scored.scores, names, skipping)
    empty = {name: int(np.isnan(values).sum()) for name, values in found.items()}
    values = evaluation.fill_empty(found, convention.empty_list)
    results = {"test": evaluation.means(values)}
    if files is not None:
        files.claim()
        files.remove()
        outputs.write_per_query(FLAGS.output_dir, judged, values)
        outputs.write_trec(
            FLAGS.output_dir, scored.lists, scored.scores, scored.tag, judged
        )
        write("flags.cfg", as_flag_file())
        write(
            "metrics.json",
            outputs.as_json(
                {
                    **results,
                    "convention": convention.as_dict(),
                    "labels": wanted.describe(),
                    "queries": {"test": judged.num_lists},
                    "eval_list_size": FLAGS.eval_list_size and {"test": cut.as_dict()},
                    "empty_queries": {"test": empty},
                    **scored.counts,
                }
            ),
        )
    if FLAGS.print_per_query:
        print(outputs.per_query_table(judged.query_ids, values))
    print(
        f"{convention.describe()}\n{describe_empty(empty, judged.num_lists)}\n"
        f"{outputs.metric_table(results)}"
    )


def output_files() -> written.Files | None:
    """Returns the files of --output_dir, if it is given."""
    if FLAGS.output_dir is None:
        return None
    return written.Files(
        "evaluate",
        "output_dir",
        FLAGS.output_dir,
        _FILES,
        _FILES,
        lambda directory: written.first_line(directory, "flags.cfg") == _COMMENT,
    )


def check_source() -> None:
    """Checks that the flags name one thing to evaluate.

    Raises:
        ValueError: if they name none, or several.
    """
    given = [f"--{name}" for name in _SOURCES if getattr(FLAGS, name) is not None]
    if len(given) != 1:
        raise ValueError(
            "Give exactly one of --export, --run and --scores. "
            f"Received: {' and '.join(given) or 'none'}."
        )


def score(judged: data.RankingLists, scorer: Any) -> Scored:
    """Returns the scores of the judged lists, and says what of a run is left out.

    Args:
        judged: the lists.
        scorer: the exported model, if it is one that the flags name.

    Raises:
        ValueError: if the file of a run or of scores has errors.
    """
    if scorer is not None:
        return Scored(judged, scorer.scores(judged, FLAGS.batch_size))
    if FLAGS.scores is not None:
        return Scored(judged, evaluation.read_scores(FLAGS.scores, judged.num_items))
    run = evaluation.read_run(FLAGS.run, judged)
    missing, unjudged = len(run.missing(judged)), len(run.unjudged(judged))
    if missing:
        print(
            f"{missing} of {judged.num_lists} judged queries are not in the run: "
            "they count, as queries for which nothing is retrieved."
        )
    if unjudged:
        print(f"{unjudged} queries of the run are not judged: they do not count.")
    return Scored(
        *run.ranked(judged),
        tag=run.tag,
        counts={"missing_queries": missing, "unjudged_queries": unjudged},
        ties=evaluation.TIES_BY_NAME,
    )


def describe_empty(empty: Mapping[str, int], num_lists: int) -> str:
    """Returns in words how many lists are empty.

    Args:
        empty: number of empty lists by metric.
        num_lists: number of lists.

    Examples:
        >>> describe_empty({'map': 2, 'opa': 3, 'mrr': 2}, 9)
        'Such lists: 2 of 9 (map, mrr), 3 of 9 (opa: one label only).'
    """
    by_count: dict[int, list[str]] = {}
    for name, count in empty.items():
        why = objectives.of_name(objectives.parse(name)[0]).EMPTY
        told = f"{name}: {why}" if why else name
        by_count.setdefault(count, []).append(told)
    parts = [
        f"{count} of {num_lists}" + f" ({', '.join(names)})" * (len(by_count) > 1)
        for count, names in by_count.items()
    ]
    return f"Such lists: {', '.join(parts)}."


def as_flag_file() -> str:
    """Returns the text of a flag file that evaluates again."""
    own = FLAGS.get_key_flags_for_module(sys.argv[0])
    written = [f.serialize() for f in own if f.name != "output_dir"]
    return "\n".join([_COMMENT] + [text for text in written if text]) + "\n"


def write(name: str, text: str) -> None:
    """Writes a file of --output_dir."""
    write_atomically(os.path.join(FLAGS.output_dir, name), text)


if __name__ == "__main__":
    define_flags()
    command.run(evaluate)
