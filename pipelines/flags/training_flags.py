"""The flags of training."""

from __future__ import annotations

import sys
from typing import Any

from absl import flags

from pipelines.flags import flag_types, path_flags, shared_flags
from tfr_ext import data, models
from tfr_ext.losses.tfr import lambda_weights
from tfr_ext.models import scorers, transforms
from tfr_ext.training import heads, schedules

FLAGS = flags.FLAGS

# Names of strategies, and what TensorFlow Ranking calls them.
STRATEGIES = {
    "none": None,
    "mirrored": "MirroredStrategy",
    "multi_worker": "MultiWorkerMirroredStrategy",
}


def define_training_flags(model_dir: bool = True) -> None:
    """Defines the model and how it is trained.

    Args:
        model_dir: whether --model_dir must be given.
    """
    path_flags.define(
        "model_dir",
        "Directory that gets all files of the run.",
        required=model_dir,
    )
    flags.DEFINE_enum(
        "model", "mlp", ["mlp"], "Scorer: 'mlp', a fully connected network."
    )
    flags.DEFINE_enum(
        "head",
        None,
        heads.KINDS,
        "What the model ends in: 'score'; 'expected_grade', the expectation of a "
        "distribution over grades, on which any loss trains; or 'grades', the "
        "distribution itself, for a loss that compares it with the labels', and whose "
        "expectation then ranks. 'grades' for pointwise_kl_multinomial_loss if left "
        "out, else 'score'.",
    )
    flags.DEFINE_list(
        "grade_values",
        [],
        "Value of each grade, rising, for --head=expected_grade and grades. Evenly "
        "from 0 to 1 for the grades 0 to --max_label, or to the highest label of the "
        "training data, if left out.",
    )
    flags.DEFINE_list(
        "feature_transforms",
        [],
        f"What the model does to features before anything else, in order: "
        f"{transforms.FORMS}.",
    )
    flags.DEFINE_list(
        "hidden_sizes",
        ["1024"],
        "Units of each hidden layer; none if empty: features are then weighed into the "
        "score by one layer.",
    )
    flags.DEFINE_enum(
        "activation", "relu", models.ACTIVATIONS, "Activation of the hidden layers."
    )
    flags.DEFINE_enum(
        "output_activation",
        "linear",
        models.OUTPUT_ACTIVATIONS,
        "Activation of the score: a sigmoid's is from 0 to 1.",
    )
    flag_types.define_float(
        "dropout",
        0.0,
        "Share of hidden units dropped in training; of the inputs without any.",
    )
    flag_types.define_float(
        "l2_regularization",
        0.0,
        "Rate r of the penalty r / 2 * sum(w^2) on the kernels of the dense layers, "
        "which joins the loss: r * w joins the gradient.",
        lower_bound=0.0,
    )
    flags.DEFINE_bool(
        "batch_normalization", True, "Normalise the inputs and each hidden layer."
    )
    flag_types.define_float(
        "batch_norm_momentum", 0.9, "Momentum of the moving batch statistics."
    )
    flag_types.define_float(
        "batch_norm_epsilon",
        1e-3,
        "What is added to variances: 0.001 as in Keras, or 0.00001 as in PyTorch.",
    )
    flags.DEFINE_enum(
        "initializer",
        "glorot",
        scorers.INITIALIZERS,
        "Where weights begin: 'glorot' as in Keras, uniform within sqrt(6 / (inputs + "
        "outputs)) and biases 0; 'pytorch' as there, both uniform within 1 / "
        "sqrt(inputs).",
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
    flags.DEFINE_string(
        "lambda_weight",
        None,
        "A lambda weight, which makes a loss of TensorFlow Ranking follow a metric: "
        f"{', '.join(lambda_weights.names())}. An empty --lambda_weight= drops it and "
        "its parameters.",
    )
    flags.DEFINE_multi_string(
        "lambda_weight_param",
        [],
        "A parameter of the lambda weight as name=value, such as topn=10. Repeatable "
        "as --loss_param is.",
    )
    flags.DEFINE_multi_string(
        "loss_schedule",
        [],
        "A schedule of a parameter of the loss as NAME:FORM, from the value that "
        f"--loss_param gives it or else its default. FORM is {schedules.LOSS_FORMS}. "
        "Repeatable; the last schedule of a name holds, and an empty --loss_schedule= "
        "drops those before it.",
    )
    flags.DEFINE_bool(
        "loss_diagnostics",
        False,
        "Measure after each epoch what tells whether training works: gradients, lists "
        "that contribute nothing, the relaxed metric beside the exact one, and what "
        "the loss has of itself, such as its convergence. It joins the progress, the "
        "history and TensorBoard, and what looks wrong is told.",
    )
    flags.DEFINE_string("optimizer", "adam", "A Keras optimizer, by name.")
    flag_types.define_float("learning_rate", 1e-3, "Learning rate.", lower_bound=0.0)
    flags.DEFINE_string(
        "learning_rate_schedule",
        "constant",
        f"How the learning rate changes: {schedules.FORMS}.",
    )
    flags.DEFINE_enum(
        "label_sampling",
        "none",
        ["none", "run", "epoch"],
        "Train on labels drawn from a binomial distribution around the given ones "
        "(--num_label_trials, --max_label): 'run' draws once, 'epoch' anew for each "
        "epoch. Labels of validation and test stay.",
    )
    flag_types.define_integer(
        "num_label_trials",
        32,
        "Draws whose mean is a label of --label_sampling; the more, the nearer it is "
        "to the given label.",
        lower_bound=1,
    )
    flag_types.define_integer(
        "batch_size", 128, "Most lists of a batch.", lower_bound=1
    )
    flag_types.define_float(
        "max_padding",
        data.MAX_PADDING,
        "Most items of all batches, padding included, over real items: where lists by "
        "length need more in full batches, batches are smaller. 0 for full batches, "
        "whatever they need.",
        lower_bound=0.0,
    )
    flag_types.define_integer("num_epochs", 50, "Most epochs.", lower_bound=1)
    flag_types.define_integer(
        "early_stopping_patience",
        0,
        "Stop after so many epochs without a better --monitor; 0 never stops early.",
        lower_bound=0,
    )
    flag_types.define_metric(
        "monitor",
        "ndcg_10",
        "Validation metric of the best checkpoint and of early stopping.",
    )
    flags.DEFINE_bool(
        "overwrite",
        False,
        "Replace the run that --model_dir has, but for exported versions, as soon as "
        "the first epoch of the new one has ended.",
    )
    flag_types.define_integer(
        "checkpoint_epochs",
        1,
        "Epochs from one checkpoint to the next: an interrupted run goes on from "
        "the last. More than 1 saves time where epochs are short.",
        lower_bound=1,
    )
    flags.DEFINE_bool("draw_curves", True, "Draw curves.png at the end.")
    flags.DEFINE_bool("export_model", True, "Export the model for serving at the end.")
    flags.DEFINE_enum(
        "strategy",
        "none",
        list(STRATEGIES),
        "Devices: 'none' for one, 'mirrored' for all GPUs of this machine, "
        "'multi_worker' for several machines as TF_CONFIG says. --batch_size counts "
        "the lists of all devices.",
    )
    flag_types.define_integer(
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
        "Progress of training: a bar, a line per epoch, or nothing. A bar becomes a "
        "line per epoch where the output is no terminal.",
    )


def keras_verbosity() -> int:
    """Returns what --verbose is to Keras."""
    if FLAGS.verbose == "bar" and not sys.stdout.isatty():
        return 2
    return {"silent": 0, "bar": 1, "line": 2}[FLAGS.verbose]


def loss_parameters() -> dict[str, Any]:
    """Returns the parameters of the loss, its lambda weight among them.

    Raises:
        ValueError: if a flag has not the form that it must have, or two of them say
            what the lambda weight is.
    """
    params = shared_flags.parse_parameters(FLAGS.loss_param, "loss_param")
    for name in ("reduction", "ragged"):
        if name in params:
            raise ValueError(
                f"--loss_param={name}=...: training sets {name!r} itself. Leave it out."
            )
    weight = {
        "lambda_weight": FLAGS.lambda_weight,
        "lambda_weight_params": shared_flags.parse_parameters(
            FLAGS.lambda_weight_param, "lambda_weight_param"
        ),
    }
    for name in weight:
        if name in params:
            raise ValueError(
                f"--loss_param={name}=...: a lambda weight has flags of its own, "
                "--lambda_weight and --lambda_weight_param."
            )
    if FLAGS.lambda_weight == "":  # as a command line drops that of a flag file
        return params
    return {**params, **{name: given for name, given in weight.items() if given}}


def lambda_threshold(params: dict[str, Any]) -> float | None:
    """Returns the least label that is relevant to the lambda weight, if it has one.

    Args:
        params: what `loss_parameters` returned.
    """
    if params.get("lambda_weight") != "precision":
        return None
    return params.get("lambda_weight_params", {}).get("relevance_threshold", 1.0)
