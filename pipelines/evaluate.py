"""Evaluates an exported model, a TREC run, or scores in a file, on judged lists.

python -m pipelines.evaluate --run=FILE --qrels=FILE
python -m pipelines.evaluate --dataset=text --test_path=FILE --export=DIR
python -m pipelines.evaluate --dataset=text --test_path=FILE --run=FILE
python -m pipelines.evaluate --dataset=text --test_path=FILE --scores=FILE

Prints the mean of each metric, the convention, and how many queries its rule for empty
lists affects. With --output_dir, it also writes `metrics.json`, `per_query.tsv`,
`run.trec`, `qrels.trec` and `flags.cfg` and, where there are validation lists,
`run.valid.trec` and `qrels.valid.trec`.
"""

from __future__ import annotations

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.scoring.evaluator import evaluate as evaluate_as
from tfr_ext.settings.evaluation_config import EvaluationConfig

FLAGS = flags.FLAGS

_MOST_USED = (
    *("dataset", "test_path", "export", "run", "qrels", "scores", "output_dir"),
    *("metrics", "gain", "empty_list"),
)


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(EvaluationConfig)


def evaluate() -> None:
    """Evaluates as the flags say."""
    evaluate_as(config_flags.read(EvaluationConfig, FLAGS))


if __name__ == "__main__":
    define_flags()
    command.run(evaluate, most_used=_MOST_USED)
