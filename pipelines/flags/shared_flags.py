"""The flags that the commands share, by the names that all of them use."""

from __future__ import annotations

import ast
from typing import Any

from absl import flags

from pipelines.flags import flag_types, path_flags
from tfr_ext import evaluation, metrics
from tfr_ext.data import text_files

FLAGS = flags.FLAGS

# Of all commands, so that `pipelines.prepare` leaves those queries to train on that
# `pipelines.train` does. No flag file in configs/ has another.
DEFAULT_SEED = 1


def define_data_flags() -> None:
    """Defines what data a command works on."""
    flags.DEFINE_string(
        "dataset",
        "synthetic",
        "Source of the lists: 'text' reads LETOR/SVMrank files and 'elwc' TFRecords of "
        "ExampleListWithContext (--train_path and so on), 'synthetic' draws lists "
        "(--synthetic_*); anything else is a data set of TensorFlow Datasets, such as "
        "letor4/mq2008_fold1 (--data_dir, --manual_dir).",
    )
    for split, use, otherwise in (
        ("train", "train on", ""),
        ("valid", "validate on after each epoch", "--valid_fraction"),
        ("test", "test on at the end", "--test_fraction"),
    ):
        path_flags.define_list(
            f"{split}_path",
            f"Files to {use}: paths or globs, separated by commas. gzip is recognised."
            + (
                f" If left out, queries of --train_path are held out: {otherwise}."
                if otherwise
                else ""
            ),
        )
    path_flags.define(
        "data_dir",
        "Directory of prepared data: of TensorFlow Datasets (its own default if left "
        "out), or of the shards of `pipelines.prepare` for --dataset=elwc.",
    )
    path_flags.define(
        "manual_dir",
        "Directory of the downloaded files from which a TensorFlow Datasets data set "
        "is prepared at its first use.",
    )
    for split in ("valid", "test"):
        flag_types.define_float(
            f"{split}_fraction",
            0.2,
            f"Share of the training queries held out if --{split}_path is left out.",
            lower_bound=0.0,
            upper_bound=0.9,
        )
    flag_types.define_integer(
        "num_features",
        None,
        "Number of features. Found from the training data if left out.",
        lower_bound=1,
    )
    flag_types.define_float(
        "missing_value", 0.0, "Value of a feature that the text gives as NULL."
    )
    flag_types.define_integer(
        "list_size",
        None,
        "Most items of a list in training; longer lists are cut to the best of "
        "--first_stage_feature, or else to a random choice by --data_seed.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "eval_list_size",
        None,
        "The same for lists of validation and test, which are not cut without it.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "first_stage_feature",
        None,
        "Number of a feature, from 1 up as in LETOR text, by which --list_size and "
        "--eval_list_size keep the items with the highest values.",
        lower_bound=1,
    )
    flags.DEFINE_list(
        "label_weights",
        [],
        "Weight of each grade, rising, such as -1,0.5,1: each label becomes the "
        "expected weight of its label distribution, rescaled to 0 to 1.",
    )
    flag_types.define_float(
        "binarize_labels",
        None,
        "Least label that becomes 1; the others become 0. After --label_weights.",
    )
    flag_types.define_integer(
        "synthetic_num_queries", 1000, "Synthetic queries, all splits.", lower_bound=3
    )
    flag_types.define_integer(
        "synthetic_list_size", 40, "Items per synthetic query.", lower_bound=1
    )
    flag_types.define_integer(
        "synthetic_document_features",
        20,
        "Features of a synthetic item.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "synthetic_query_features",
        5,
        "Features of a synthetic query: the weights of as many item features.",
        lower_bound=1,
    )
    flag_types.define_float(
        "synthetic_max_label", 4.0, "Greatest synthetic label.", lower_bound=1e-6
    )
    flags.DEFINE_bool(
        "synthetic_integer_labels", True, "Round synthetic labels to grades."
    )
    flags.DEFINE_bool(
        "synthetic_shared_columns",
        True,
        "Weigh the same item features in all queries, so that there is something to "
        "learn. --nosynthetic_shared_columns draws them anew for each query, as the "
        "PiRank paper's Appendix E does.",
    )
    flag_types.define_seed("seed", DEFAULT_SEED, "Seed of everything random.")
    flag_types.define_seed(
        "data_seed",
        None,
        "Seed of synthetic lists, of the queries held out and of the items that "
        "--list_size leaves, if they are to stay the same under another --seed.",
    )
    _define_elwc_flags()


def _define_elwc_flags() -> None:
    """Defines how --dataset=elwc reads its files."""
    flags.DEFINE_list(
        "elwc_features",
        ["float_features"],
        "Features of the examples of --dataset=elwc, each one number or several: "
        "together, in this order, they are the features of an item.",
    )
    flags.DEFINE_list(
        "elwc_context_features",
        [],
        "Features of the context of --dataset=elwc that follow them, the same for all "
        "items of a list.",
    )
    for name, what in (
        ("label", "Name of the label in the examples of --dataset=elwc."),
        ("query_id", "Name of the query's name in the context; may be left empty."),
        ("doc_id", "Name of the item's name in the examples; may be left empty."),
        (
            "label_distribution",
            "Name of the label's distribution over grades in the examples; may be left "
            "empty.",
        ),
    ):
        flags.DEFINE_string(f"elwc_{name}", name, what)
    flags.DEFINE_bool(
        "stream",
        False,
        "Read the training files of --dataset=elwc anew in each epoch instead of "
        "holding them in memory. Lists are then shuffled within 32 batches, of four "
        "files at a time. Queries cannot be held out.",
    )


def define_metric_flags() -> None:
    """Defines what is evaluated, and by what convention."""
    flag_types.define_metrics(
        "metrics",
        list(evaluation.DEFAULT_METRICS),
        f"Metrics to evaluate: {', '.join(metrics.names())}, with a cut-off as in "
        "ndcg_10 or ndcg@10 (all but opa).",
    )
    flags.DEFINE_enum(
        "empty_list",
        "zero",
        list(metrics.EMPTY_LIST_RULES),
        "What a list without anything relevant counts as in a mean.",
    )
    flags.DEFINE_enum(
        "gain", "exponential", ["exponential", "linear"], "Gain of a label in NDCG."
    )
    flag_types.define_float(
        "relevance_threshold",
        1.0,
        "Least label that is relevant to precision, MAP and MRR.",
    )
    flag_types.define_float(
        "max_label",
        None,
        "Highest grade of the collection, for ERR, nERR and losses that have "
        "max_label. Found from the data if left out.",
    )


def data_seed(flags: Any) -> int:
    """Returns the seed of what is random in the data.

    Args:
        flags: parsed flags.
    """
    return flags.seed if flags.data_seed is None else flags.data_seed


def convention() -> evaluation.Convention:
    """Returns the convention that the flags state, with --max_label 1 if left out.

    Raises:
        ValueError: if there is no metric at all.
    """
    if not FLAGS.metrics:
        raise ValueError("--metrics must name at least one metric.")
    return evaluation.Convention(
        gain=FLAGS.gain,
        empty_list=FLAGS.empty_list,
        relevance_threshold=FLAGS.relevance_threshold,
        max_label=1.0 if FLAGS.max_label is None else FLAGS.max_label,
    )


def parse_parameters(assignments: list[str], flag: str) -> dict[str, Any]:
    """Reads repeated `name=value` flags; values are Python literals, else strings.

    Args:
        assignments: such as `['alpha=1.0', 'metric=map']`.
        flag: the flag's name, for errors.

    Returns:
        The parameters. Of two assignments to a name the later holds, and an empty
        one drops all that came before: so a command line overrides a flag file.

    Raises:
        ValueError: if an assignment is not of that form, or has a number that is not
            finite.

    Examples:
        >>> parse_parameters(['alpha=1.0', 'metric=map', 'alpha=2'], 'loss_param')
        {'alpha': 2, 'metric': 'map'}
    """
    parameters: dict[str, Any] = {}
    for assignment in assignments:
        if not assignment:
            parameters.clear()
            continue
        name, equals, text = assignment.partition("=")
        if not equals or not name.isidentifier() or not text:
            raise ValueError(
                f"--{flag} must have the form name=value. Received: {assignment!r}."
            )
        try:
            parameters[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            parameters[name] = text
        if not _is_finite(parameters[name]):
            raise ValueError(
                f"--{flag} must have finite numbers. Received: {assignment!r}."
            )
    return parameters


def _is_finite(value: Any) -> bool:
    """Tells whether a value has no NaN and no infinity, also as text."""
    if isinstance(value, (list, tuple, set)):
        return all(map(_is_finite, value))
    if isinstance(value, dict):
        return all(map(_is_finite, (*value, *value.values())))
    try:
        return flag_types.is_finite(float(value))
    except (TypeError, ValueError):
        return True  # no number at all
    except OverflowError:
        return False


def parse_schedules(schedules: list[str], flag: str) -> dict[str, str]:
    """Reads repeated `NAME:FORM` flags.

    Args:
        schedules: such as `['alpha:exponential:2']`.
        flag: the flag's name, for errors.

    Returns:
        The forms by name. Of two schedules of a name the later holds, and an empty one
        drops all that came before.

    Raises:
        ValueError: if one is not of that form.

    Examples:
        >>> parse_schedules(['alpha:exponential:2:9'], 'loss_schedule')
        {'alpha': 'exponential:2:9'}
    """
    forms: dict[str, str] = {}
    for schedule in schedules:
        if not schedule:
            forms.clear()
            continue
        name, _, form = schedule.partition(":")
        if not form or not name.isidentifier():
            raise ValueError(
                f"--{flag} must have the form NAME:FORM. Received: {schedule!r}."
            )
        forms[name] = form
    return forms


def parse_integers(texts: list[str], flag: str, least: int, most: int) -> list[int]:
    """Reads a list flag of integers.

    Args:
        texts: the integers.
        flag: the flag's name, for errors.
        least: the least that one may be.
        most: the highest that one may be.

    Raises:
        ValueError: if one is not an integer, or out of range.
    """
    try:
        integers = [text_files.parse_integer(text.strip()) for text in texts]
    except ValueError:
        integers = [least - 1]
    if not all(least <= integer <= most for integer in integers):
        raise ValueError(
            f"--{flag} must be integers from {least} to {most} separated by commas. "
            f"Received: {texts}."
        )
    return integers


def parse_numbers(texts: list[str], flag: str) -> list[float]:
    """Reads a list flag of numbers.

    Args:
        texts: the numbers.
        flag: the flag's name, for errors.

    Raises:
        ValueError: if one is not a finite number.
    """
    parser = flag_types.FiniteParser()
    try:
        return [parser.parse(text) for text in texts]
    except ValueError:
        raise ValueError(
            f"--{flag} must be finite numbers separated by commas. Received: {texts}."
        ) from None
