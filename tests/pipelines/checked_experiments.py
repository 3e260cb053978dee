"""Reads experiment files, and prints as JSON what is in them and what is wrong.

python -m tests.pipelines.checked_experiments [--trace] FILE ...
"""

import functools
import json
import sys

from absl import flags

from pipelines import experiment
from pipelines.experiments import cells
from pipelines.experiments.kinds import KINDS
from pipelines.flags import config_flags
from tfr_ext import datasets
from tfr_ext.training import TrainingConfig, heads, training_checks

FLAGS = flags.FLAGS


@functools.cache
def collections():
    return datasets.names()


def parse(*arguments):
    FLAGS.unparse_flags()
    FLAGS(["experiment", *arguments, "--output_dir=unused"])


def build_loss(config):
    """Builds the loss, without the graph that `training_checks.check` traces."""
    training_checks.check_loss(config, heads.from_config(config), trace=False)


def content(path, check, done):
    parse(f"--flagfile={path}")
    folds, bases = FLAGS.folds, experiment.base_flags()
    base = bases["train"]
    methods = cells.parse_methods(FLAGS.method, KINDS)
    found = {
        "folds": folds,
        "metrics": FLAGS.metrics,
        "select_by": FLAGS.select_by,
        "against": FLAGS["against"].value if "against" in FLAGS else "best",
        "methods": {name: len(several) for name, several in methods.items()},
        "wrong": [],
    }
    for name, several in methods.items():
        for candidate in several:
            kind = KINDS[candidate.command]
            arguments = [*cells.in_fold(bases[kind.command], folds[0])]
            arguments += candidate.arguments(folds[0])
            found.setdefault("arguments", arguments)
            if tuple(arguments) in done:
                continue
            done.add(tuple(arguments))
            try:
                parsed = config_flags.parse(kind.settings, arguments, kind.command)
                of_training = kind.settings is TrainingConfig
                (check if of_training else kind.check)(parsed.settings)
            except (AttributeError, TypeError, ValueError, flags.Error) as error:
                found["wrong"].append(f"{name}: {candidate.text}: {error}")
    for fold in folds:
        parse(*cells.in_fold(base, fold), "--method=A: --loss=A")
        if FLAGS.dataset == "text":
            for name in ("train_path", "valid_path", "test_path"):
                paths = FLAGS[name].value
                if not paths or not all(f"/Fold{fold}/" in path for path in paths):
                    found["wrong"].append(f"--{name}={','.join(paths)}, fold {fold}")
        elif FLAGS.dataset != "synthetic" and FLAGS.dataset not in collections():
            found["wrong"].append(f"--dataset={FLAGS.dataset}")
    return found


def main():
    """Prints what is in the files."""
    paths = [argument for argument in sys.argv[1:] if argument != "--trace"]
    check = training_checks.check if "--trace" in sys.argv else build_loss
    experiment.define_flags()
    done = set()
    print(json.dumps({path: content(path, check, done) for path in paths}))


if __name__ == "__main__":
    main()
