"""Settings of the model and of the loss."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfr_ext.core.settings import Settings, given, setting
from tfr_ext.losses.tfr.names import LAMBDA_WEIGHTS
from tfr_ext.models import categories, network, presets
from tfr_ext.models.transforms import feature_transform

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


def _defaults(name: str) -> str:
    """Returns a sentence with the scorers' defaults of a setting."""
    by_value: dict[str, list[str]] = {}
    for model, preset in presets.PRESETS.items():
        if name in preset.defaults and name not in preset.fixed:
            value = preset.defaults[name]
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            by_value.setdefault(text or "none", []).append(f"'{model}'")
    if len(by_value) == 1:
        ((text, models),) = by_value.items()
        return f"{text} by default; for {' and '.join(models)} only."
    texts = [f"{text} for {', '.join(models)}" for text, models in by_value.items()]
    return f"By default {'; '.join(texts)}."


@dataclasses.dataclass(frozen=True)
class ModelConfig(Settings):
    """The network and its output.

    What a scorer has defaults of its own for is None if it is left out, and gets that
    default at once; None remains where a setting has no effect.

    Examples:
        >>> ModelConfig("dnn").hidden_sizes, ModelConfig("dnn", dropout=0.1).dropout
        ((1024, 512, 256), 0.1)
        >>> ModelConfig("mlp").num_heads, ModelConfig("transformer").num_heads
        (None, 4)
    """

    GROUP = "model"

    model: str = setting(
        "auto",
        "Scorer: "
        + "; ".join(f"'{name}', {p.about}" for name, p in presets.PRESETS.items())
        + ". The other settings of the model are those of the scorer unless they are "
        "given.",
        choices=tuple(presets.PRESETS),
    )
    head: str | None = setting(
        None,
        "Output of the model for an item: 'score', one number; 'expected_grade', the "
        "expectation of a distribution over grades, which any loss can train; or "
        "'grades', the distribution itself, for a loss that compares it with the "
        "distribution of the labels; its expectation then ranks the items. If left "
        "out, 'grades' for pointwise_kl_multinomial_loss, else 'score'.",
        choices=HEADS,
    )
    grade_values: tuple[float, ...] = setting(
        (),
        "Value of each grade, in increasing order, for `head='expected_grade'` and "
        "`head='grades'`. If left out, the values are evenly spaced from 0 to 1, for "
        "the grades from 0 to `max_label` or to the highest label of the training "
        "data.",
        kind="numbers",
    )
    feature_transforms: tuple[str, ...] = setting(
        None,
        "Transforms that the model applies to the features first, in this order: "
        f"{feature_transform.FORMS}. {_defaults('feature_transforms')}",
        kind="texts",
    )
    feature_noise: float = setting(
        0.0,
        "Standard deviation of the normal noise that training adds to each feature "
        "after `feature_transforms`, as data augmentation. Evaluation and exports "
        "have none.",
        low=0.0,
    )
    vocabulary_size: int | None = setting(
        None,
        "Number of values of each category that the model tells apart, the most "
        "frequent in training; all others share one embedding. "
        f"{categories.VOCABULARY_SIZE:,} by default.",
        kind="integer",
        low=1,
    )
    min_count: int | None = setting(
        None,
        "How often a value of a category must occur in training to have an embedding "
        f"of its own; {categories.MIN_COUNT} by default.",
        kind="integer",
        low=1,
    )
    hidden_sizes: tuple[int, ...] | None = setting(
        None,
        "Number of units of each hidden layer; for 'transformer', of each layer before "
        "the blocks, which are as wide as the last. If empty, there is no hidden "
        f"layer, and one layer computes the score. {_defaults('hidden_sizes')}",
        kind="integers",
        low=1,
    )
    num_layers: int | None = setting(
        None,
        "Number of layers of self-attention, each of which is a block of the encoder "
        f"in 'transformer'. {_defaults('num_layers')}",
        kind="integer",
        low=1,
    )
    num_heads: int | None = setting(
        None,
        f"Number of heads of self-attention. {_defaults('num_heads')}",
        kind="integer",
        low=1,
    )
    attention_size: int | None = setting(
        None,
        "Width of the attention layers of 'dasalc', and of each of their heads. "
        f"{_defaults('attention_size')}",
        kind="integer",
        low=1,
    )
    feed_forward_factor: int | None = setting(
        None,
        "Number of hidden units of the feed-forward networks after self-attention, in "
        f"multiples of their inputs. {_defaults('feed_forward_factor')}",
        kind="integer",
        low=1,
    )
    activation: str = setting(
        "relu", "Activation of the hidden layers.", choices=network.ACTIVATIONS
    )
    output_activation: str | None = setting(
        None,
        "Activation of the score; 'sigmoid' gives scores from 0 to 1. "
        f"{_defaults('output_activation')}",
        choices=network.OUTPUT_ACTIVATIONS,
    )
    dropout: float | None = setting(
        None,
        "Share of hidden units dropped in training, or of inputs if there is no "
        f"hidden layer. {_defaults('dropout')}",
        kind="number",
    )
    l2_regularization: float | None = setting(
        None,
        "Rate r of the penalty r / 2 * sum(w^2) on the kernels of the dense layers. "
        "It is added to the loss, and so r * w is added to the gradient. "
        f"{_defaults('l2_regularization')}",
        kind="number",
        low=0.0,
    )
    batch_normalization: bool | None = setting(
        None,
        "Apply batch normalisation to the inputs and to each hidden layer. "
        f"{_defaults('batch_normalization')}",
        kind="boolean",
    )
    batch_norm_momentum: float = setting(
        0.9, "Momentum of the moving averages of batch normalisation."
    )
    batch_norm_epsilon: float = setting(
        1e-3,
        "Number that batch normalisation adds to variances: 0.001 as in Keras, or "
        "0.00001 as in PyTorch.",
    )
    initializer: str = setting(
        "glorot",
        "Initial weights: 'glorot', as in Keras, draws kernels uniformly within "
        "sqrt(6 / (inputs + outputs)) and sets biases to 0; 'pytorch', as in PyTorch, "
        "draws both uniformly within 1 / sqrt(inputs).",
        choices=network.INITIALIZERS,
    )

    def __post_init__(self) -> None:
        """Checks the settings, and completes them by the defaults of the scorer."""
        super().__post_init__()
        for name, value in presets.completed(self.model, self.options()).items():
            object.__setattr__(self, name, value)
        if self.model == "linear" and self.activation != "relu":
            raise ValueError(
                f"{given('activation', self.activation)} has no effect with "
                f"{given('model', self.model)}, which has no hidden layers. Leave it "
                "out."
            )

    def left_out(self, name: str) -> Any:
        """Returns the default of a setting, which may depend on the scorer."""
        default = presets.PRESETS[self.model].defaults.get(name)
        return super().left_out(name) if default is None else default

    def options(self) -> dict[str, Any]:
        """Returns the settings for which each scorer has defaults of its own."""
        return {name: getattr(self, name) for name in presets.OPTIONS}


@dataclasses.dataclass(frozen=True)
class LossConfig(Settings):
    """The loss and its parameters.

    Examples:
        >>> LossConfig("smoothi_loss", {"alpha": 2.0}).arguments()
        {'alpha': 2.0}
    """

    GROUP = "loss"

    loss: str = setting(
        "smoothi_loss",
        "Key of a loss of tfr_ext.losses or tfr.keras.losses, such as smoothi_loss, "
        "softmax_loss or approx_ndcg_loss.",
    )
    params: Any = setting(
        {},
        "A parameter of the loss, as name=value. Repeatable; the last value of a name "
        "counts, and an empty one drops all parameters given before it.",
        kind="parameters",
        key="loss_param",
    )
    lambda_weight: str | None = setting(
        None,
        "A lambda weight, which makes a loss of TensorFlow Ranking optimise a metric: "
        f"{', '.join(LAMBDA_WEIGHTS)}. `lambda_weight=''` drops the one given before, "
        "with its parameters.",
        kind="text",
    )
    lambda_weight_params: Any = setting(
        {},
        "A parameter of the lambda weight, as name=value, such as topn=10. Repeatable "
        "in the same way as `params`.",
        kind="parameters",
        key="lambda_weight_param",
    )
    schedules: Any = setting(
        {},
        "A schedule of a parameter of the loss, as NAME:FORM. It starts at the value "
        f"that `params` gives, or else at the default. FORM is {LOSS_FORMS}. "
        "Repeatable; the last schedule of a name counts, and an empty one drops all "
        "schedules given before it.",
        kind="schedules",
        key="loss_schedule",
    )
    loss_diagnostics: bool = setting(
        False,
        "Measure after each epoch whether training works: gradients, lists that "
        "contribute nothing, the relaxed metric beside the exact one, and what the "
        "loss itself reports, such as its convergence. The measures appear in the "
        "progress, the history and TensorBoard, and a warning says what looks wrong.",
    )

    def __post_init__(self) -> None:
        """Checks the settings, and that the parameters name no lambda weight."""
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
