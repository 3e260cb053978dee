"""Reads experiment files, and prints as JSON what is in them and what is wrong.

python -m tests.pipelines.checked_experiments [--trace] FILE ...
"""

import functools
import json
import sys

from absl import flags

import tfr_ext
from pipelines import experiment
from pipelines.experiments import candidates
from pipelines.flags import run_flags, training_flags
from tfr_ext import datasets
from tfr_ext.training import heads, schedules, training_checks
from tfr_ext.training.sources import wanted_labels

FLAGS = flags.FLAGS


@functools.cache
def collections():
    return datasets.names()


def parse(*arguments):
    FLAGS.unparse_flags()
    FLAGS(["experiment", *arguments, "--output_dir=unused"])


def build_loss():
    """Builds the loss, without the graph that `training_checks.check_flags` traces."""
    params = training_flags.loss_parameters()
    head = heads.from_flags(FLAGS, params)
    params = head.loss_params(FLAGS.loss, params)
    if wanted_labels.needs_max_label(FLAGS.loss, params):
        params = {**params, "max_label": 1.0}
    forms = dict(form.split(":", 1) for form in FLAGS.loss_schedule)
    params = schedules.loss_parameters(FLAGS.loss, params, forms, 1, FLAGS.num_epochs)
    head.check_loss(FLAGS.loss, tfr_ext.losses.get(FLAGS.loss, **params))


def content(path, check, done):
    parse(f"--flagfile={path}")
    base, folds = run_flags.given(), FLAGS.folds
    methods = candidates.parse_methods(FLAGS.method)
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
            arguments = [*candidates.in_fold(base, folds[0])]
            arguments += candidate.arguments(folds[0])
            found.setdefault("arguments", arguments)
            if tuple(arguments) in done:
                continue
            done.add(tuple(arguments))
            try:
                parse(*arguments, "--method=A: --loss=A")
                check()
            except (AttributeError, TypeError, ValueError, flags.Error) as error:
                found["wrong"].append(f"{name}: {candidate.text}: {error}")
    for fold in folds:
        parse(*candidates.in_fold(base, fold), "--method=A: --loss=A")
        if FLAGS.dataset != "synthetic" and FLAGS.dataset not in collections():
            found["wrong"].append(f"--dataset={FLAGS.dataset}")
    return found


def main():
    """Prints what is in the files."""
    paths = [argument for argument in sys.argv[1:] if argument != "--trace"]
    check = training_checks.check_flags if "--trace" in sys.argv else build_loss
    experiment.define_flags()
    done = set()
    print(json.dumps({path: content(path, check, done) for path in paths}))


if __name__ == "__main__":
    main()
