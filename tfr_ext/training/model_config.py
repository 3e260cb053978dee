"""Settings of the model and of the loss."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.losses.tfr.names import LAMBDA_WEIGHTS
from tfr_ext.models import scorers
from tfr_ext.models.transforms import transform_grammar

# The output of a model. score: one number per item. expected_grade: the expectation of
# a distribution over grades, for any loss. grades: the distribution itself, for losses
# that compare it with a distribution of labels.
HEADS = ("score", "expected_grade", "grades")
LOSS_FORMS = (
    "'exponential:FACTOR' (multiplied by FACTOR over each epoch, step by step; a "
    "factor above 1 makes it grow), 'exponential:FACTOR:LIMIT' (the same, but not "
    "beyond LIMIT), 'step:EPOCHS:FACTOR' (multiplied by FACTOR every EPOCHS epochs), "
    "or 'linear:FINAL' (in equal steps to FINAL at the end of the run)"
)


@dataclasses.dataclass(frozen=True)
class ModelConfig(Settings):
    """The network and its output."""

    model: str = setting(
        "mlp",
        "Scorer: 'mlp', a fully connected network.",
        group="model",
        choices=("mlp",),
    )
    head: str | None = setting(
        None,
        "Output of the model for an item: 'score', one number; 'expected_grade', the "
        "expectation of a distribution over grades, which any loss can train; or "
        "'grades', the distribution itself, for a loss that compares it with the "
        "distribution of the labels; its expectation then ranks the items. If left "
        "out, 'grades' for pointwise_kl_multinomial_loss, else 'score'.",
        group="model",
        choices=HEADS,
    )
    grade_values: tuple[float, ...] = setting(
        (),
        "Value of each grade, in increasing order, for `head='expected_grade'` and "
        "`head='grades'`. If left out, the values are evenly spaced from 0 to 1, for "
        "the grades from 0 to `max_label` or to the highest label of the training "
        "data.",
        group="model",
        kind="numbers",
    )
    feature_transforms: tuple[str, ...] = setting(
        (),
        "Transforms that the model applies to the features first, in this order: "
        f"{transform_grammar.FORMS}.",
        group="model",
        kind="texts",
    )
    feature_noise: float = setting(
        0.0,
        "Standard deviation of the normal noise that training adds to each feature "
        "after `feature_transforms`, as data augmentation. Evaluation and exports "
        "have none.",
        group="model",
        low=0.0,
    )
    hidden_sizes: tuple[int, ...] = setting(
        (1024,),
        "Number of units of each hidden layer. If empty, there is no hidden layer, "
        "and one layer computes the score from the features.",
        group="model",
        kind="integers",
        low=1,
    )
    activation: str = setting(
        "relu",
        "Activation of the hidden layers.",
        group="model",
        choices=scorers.ACTIVATIONS,
    )
    output_activation: str = setting(
        "linear",
        "Activation of the score; 'sigmoid' gives scores from 0 to 1.",
        group="model",
        choices=scorers.OUTPUT_ACTIVATIONS,
    )
    dropout: float = setting(
        0.0,
        "Share of hidden units dropped in training, or of inputs if there is no "
        "hidden layer.",
        group="model",
    )
    l2_regularization: float = setting(
        0.0,
        "Rate r of the penalty r / 2 * sum(w^2) on the kernels of the dense layers. "
        "It is added to the loss, and so r * w is added to the gradient.",
        group="model",
        low=0.0,
    )
    batch_normalization: bool = setting(
        True,
        ("Apply batch normalisation to the inputs and to each hidden layer."),
        group="model",
    )
    batch_norm_momentum: float = setting(
        0.9, "Momentum of the moving averages of batch normalisation.", group="model"
    )
    batch_norm_epsilon: float = setting(
        1e-3,
        "Number that batch normalisation adds to variances: 0.001 as in Keras, or "
        "0.00001 as in PyTorch.",
        group="model",
    )
    initializer: str = setting(
        "glorot",
        "Initial weights: 'glorot', as in Keras, draws kernels uniformly within "
        "sqrt(6 / (inputs + outputs)) and sets biases to 0; 'pytorch', as in PyTorch, "
        "draws both uniformly within 1 / sqrt(inputs).",
        group="model",
        choices=scorers.INITIALIZERS,
    )


@dataclasses.dataclass(frozen=True)
class LossConfig(Settings):
    """The loss and its parameters.

    Examples:
        >>> LossConfig("smoothi_loss", {"alpha": 2.0}).arguments()
        {'alpha': 2.0}
    """

    loss: str = setting(
        "smoothi_loss",
        "Key of a loss of tfr_ext.losses or tfr.keras.losses, such as smoothi_loss, "
        "softmax_loss or approx_ndcg_loss.",
        group="loss",
    )
    params: Any = setting(
        {},
        "A parameter of the loss, as name=value. Repeatable; the last value of a name "
        "counts, and an empty one drops all parameters given before it.",
        group="loss",
        kind="parameters",
        key="loss_param",
    )
    lambda_weight: str | None = setting(
        None,
        "A lambda weight, which makes a loss of TensorFlow Ranking optimise a metric: "
        f"{', '.join(LAMBDA_WEIGHTS)}. `lambda_weight=''` drops the one given before, "
        "with its parameters.",
        group="loss",
        kind="text",
    )
    lambda_weight_params: Any = setting(
        {},
        "A parameter of the lambda weight, as name=value, such as topn=10. Repeatable "
        "in the same way as `params`.",
        group="loss",
        kind="parameters",
        key="lambda_weight_param",
    )
    schedules: Any = setting(
        {},
        "A schedule of a parameter of the loss, as NAME:FORM. It starts at the value "
        f"that `params` gives, or else at the default. FORM is {LOSS_FORMS}. "
        "Repeatable; the last schedule of a name counts, and an empty one drops all "
        "schedules given before it.",
        group="loss",
        kind="schedules",
        key="loss_schedule",
    )
    loss_diagnostics: bool = setting(
        False,
        "Measure after each epoch whether training works: gradients, lists that "
        "contribute nothing, the relaxed metric beside the exact one, and what the "
        "loss itself reports, such as its convergence. The measures appear in the "
        "progress, the history and TensorBoard, and a warning says what looks wrong.",
        group="loss",
    )

    def __post_init__(self) -> None:
        """Checks the settings.

        Raises:
            ValueError: if a setting is wrong, or the parameters of the loss name a
                lambda weight too.
        """
        super().__post_init__()
        for name in ("reduction", "ragged"):
            if name in self.params:
                raise ValueError(
                    f"{given(f'params[{name!r}]', self.params[name])}: training sets "
                    f"{name!r} itself. Leave it out."
                )
        for name in ("lambda_weight", "lambda_weight_params"):
            if name in self.params:
                raise ValueError(
                    f"{given(f'params[{name!r}]', self.params[name])}: a lambda weight "
                    "has arguments of its own, `lambda_weight` and "
                    "`lambda_weight_params`."
                )

    def arguments(self) -> dict[str, Any]:
        """Returns the parameters of the loss, including its lambda weight."""
        params = dict(self.params)
        if self.lambda_weight == "":  # as a command line drops that of a flag file
            return params
        if self.lambda_weight is not None:
            params["lambda_weight"] = self.lambda_weight
        if self.lambda_weight_params:
            params["lambda_weight_params"] = dict(self.lambda_weight_params)
        return params

    @property
    def lambda_threshold(self) -> float | None:
        """The lowest label that is relevant to the lambda weight, or None."""
        if self.lambda_weight != "precision":
            return None
        return self.lambda_weight_params.get("relevance_threshold", 1.0)
