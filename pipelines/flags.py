"""The flags that the commands share, by the names that all of them use."""

from __future__ import annotations

import ast
from typing import Any

from absl import flags

from tfr_ext import metrics, objectives, schedules

FLAGS = flags.FLAGS

# Names of strategies, and what TensorFlow Ranking calls them.
STRATEGIES = {
    "none": None,
    "mirrored": "MirroredStrategy",
    "multi_worker": "MultiWorkerMirroredStrategy",
}
# Flags that say how to run, not what: another value is not another run.
_NOT_PART_OF_A_RUN = ("model_dir", "overwrite", "verbose")


def define_data_flags() -> None:
    """Defines what data a command works on."""
    flags.DEFINE_enum(
        "dataset",
        "synthetic",
        ["synthetic", "text"],
        "Source of the lists: 'text' reads LETOR/SVMrank files (--train_path and so "
        "on), 'synthetic' draws lists (--synthetic_*).",
    )
    for split, use, otherwise in (
        ("train", "train on", ""),
        ("valid", "validate on after each epoch", "--valid_fraction"),
        ("test", "test on at the end", "--test_fraction"),
    ):
        flags.DEFINE_list(
            f"{split}_path",
            [],
            f"LETOR/SVMrank text to {use}: paths or globs, separated by commas; gzip "
            "is recognised."
            + (
                f" If left out, queries of --train_path are held out: {otherwise}."
                if otherwise
                else ""
            ),
        )
    for split in ("valid", "test"):
        flags.DEFINE_float(
            f"{split}_fraction",
            0.2,
            f"Share of the training queries held out if --{split}_path is left out.",
            lower_bound=0.0,
            upper_bound=0.9,
        )
    flags.DEFINE_integer(
        "num_features",
        None,
        "Number of features. Found from the training data if left out.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "missing_value", 0.0, "Value of a feature that the text gives as NULL."
    )
    flags.DEFINE_integer(
        "list_size",
        None,
        "Most items of a list in training; longer lists are cut to a random choice of "
        "their items by --seed. Lists are never cut in validation and test.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "synthetic_num_queries", 1000, "Synthetic queries, all splits.", lower_bound=3
    )
    flags.DEFINE_integer(
        "synthetic_list_size", 40, "Items per synthetic query.", lower_bound=1
    )
    flags.DEFINE_integer(
        "synthetic_document_features",
        20,
        "Features of a synthetic item.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "synthetic_query_features",
        5,
        "Features of a synthetic query: the weights of as many item features.",
        lower_bound=1,
    )
    flags.DEFINE_float(
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
    flags.DEFINE_integer("seed", 0, "Seed of everything random.", lower_bound=0)


def define_metric_flags() -> None:
    """Defines what is evaluated, and by what convention."""
    flags.DEFINE_list(
        "metrics",
        list(metrics.DEFAULT_METRICS),
        f"Metrics to evaluate: {', '.join(objectives.names())}, with a cut-off as in "
        "ndcg_10.",
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
    flags.DEFINE_float(
        "relevance_threshold",
        1.0,
        "Least label that is relevant to precision, MAP and MRR.",
    )
    flags.DEFINE_float(
        "max_label",
        None,
        "Highest grade of the collection, for ERR. Found from the data if left out.",
    )


def convention() -> metrics.Convention:
    """Returns the convention that the flags state, with --max_label 1 if left out.

    Raises:
        ValueError: if there is no metric at all.
    """
    if not FLAGS.metrics:
        raise ValueError("--metrics must name at least one metric.")
    return metrics.Convention(
        gain=FLAGS.gain,
        empty_list=FLAGS.empty_list,
        relevance_threshold=FLAGS.relevance_threshold,
        max_label=1.0 if FLAGS.max_label is None else FLAGS.max_label,
    )


def define_training_flags() -> None:
    """Defines the model and how it is trained."""
    flags.DEFINE_string(
        "model_dir", None, "Directory that gets all files of the run.", required=True
    )
    flags.DEFINE_enum(
        "model", "mlp", ["mlp"], "Scorer: 'mlp', a fully connected network."
    )
    flags.DEFINE_list("hidden_sizes", ["1024"], "Units of each hidden layer.")
    flags.DEFINE_float("dropout", 0.0, "Share of hidden units dropped in training.")
    flags.DEFINE_bool(
        "batch_normalization", True, "Normalise the inputs and each hidden layer."
    )
    flags.DEFINE_float(
        "batch_norm_momentum", 0.9, "Momentum of the moving batch statistics."
    )
    flags.DEFINE_string(
        "loss",
        "smoothi_loss",
        "Key of a loss of tfr_ext.losses or tfr.keras.losses, such as smoothi_loss, "
        "softmax_loss or approx_ndcg_loss.",
    )
    flags.DEFINE_multi_string(
        "loss_param",
        [],
        "A parameter of the loss as name=value. Repeatable; the last value of a name "
        "holds, and an empty --loss_param= drops those before it.",
    )
    flags.DEFINE_string("optimizer", "adam", "A Keras optimizer, by name.")
    flags.DEFINE_float("learning_rate", 1e-3, "Learning rate.", lower_bound=0.0)
    flags.DEFINE_string(
        "learning_rate_schedule",
        "constant",
        f"How the learning rate changes: {schedules.FORMS}.",
    )
    flags.DEFINE_integer("batch_size", 128, "Lists per batch.", lower_bound=1)
    flags.DEFINE_integer("num_epochs", 50, "Most epochs.", lower_bound=1)
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Stop after so many epochs without a better --monitor; 0 never stops early.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "monitor",
        "ndcg_10",
        "Validation metric of the best checkpoint and of early stopping.",
    )
    flags.DEFINE_bool(
        "overwrite",
        False,
        "Start anew in a --model_dir that has another run; its files are removed, but "
        "for exported versions.",
    )
    flags.DEFINE_enum(
        "strategy",
        "none",
        list(STRATEGIES),
        "Devices: 'none' for one, 'mirrored' for all GPUs of this machine, "
        "'multi_worker' for several machines as TF_CONFIG says. --batch_size counts "
        "the lists of all devices.",
    )
    flags.DEFINE_integer(
        "logical_cpus",
        1,
        "Split the CPU into so many devices, to try --strategy=mirrored without GPUs.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "mixed_precision",
        "none",
        ["none", "float16", "bfloat16"],
        "Compute the hidden layers in half precision. Scores and losses stay float32.",
    )
    flags.DEFINE_bool(
        "jit_compile",
        False,
        "Compile the training step with XLA. Padding is then computed, for nothing.",
    )
    flags.DEFINE_enum(
        "verbose",
        "bar",
        ["silent", "bar", "line"],
        "Progress of training: a bar, a line per epoch, or nothing.",
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
        ValueError: if an assignment is not of that form.

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
        except (ValueError, SyntaxError):
            parameters[name] = text
    return parameters


def parse_integers(texts: list[str], flag: str) -> list[int]:
    """Reads a list flag of integers.

    Raises:
        ValueError: if one is not an integer.
    """
    try:
        return [int(text) for text in texts]
    except ValueError:
        raise ValueError(
            f"--{flag} must be integers separated by commas. Received: {texts}."
        ) from None


def as_flag_file(comment: str) -> str:
    """Returns the text of a flag file with the present value of every own flag."""
    return "\n".join([f"# {comment}", *_own_flags().values()]) + "\n"


def differences(flag_file: str) -> list[str]:
    """Compares the flags with those of an earlier run.

    Args:
        flag_file: text that `as_flag_file` returned then.

    Returns:
        A line for each flag that differs, with both values.
    """
    then: dict[str, list[str]] = {}
    for line in flag_file.splitlines():
        if line.startswith("--"):
            name = line.lstrip("-").partition("=")[0]
            then.setdefault(name, []).append(line)
    now = {name: text.splitlines() for name, text in _own_flags().items()}
    # A switch that is off is written --noNAME.
    spelled = {f"no{name}": name for name in now}
    then = {spelled.get(name, name): lines for name, lines in then.items()}
    return [
        f"{' '.join(then.get(name, ['(not set)']))} then, "
        f"{' '.join(now.get(name, ['(not set)']))} now"
        for name in dict.fromkeys([*then, *now])
        if name not in _NOT_PART_OF_A_RUN and then.get(name) != now.get(name)
    ]


def _own_flags() -> dict[str, str]:
    """Returns how each flag of this module that has a value is written."""
    own = FLAGS.flags_by_module_dict()[__name__]
    written = {flag.name: flag.serialize() for flag in own}
    return {name: text for name, text in written.items() if text}
