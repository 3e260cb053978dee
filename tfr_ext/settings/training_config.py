"""Settings of training, with those of data, model, loss and metrics.

>>> config = TrainingConfig(loss=LossConfig("softmax_loss"), num_epochs=3)
>>> dataclasses.replace(config, batch_size=16).batch_size
16
>>> TrainingConfig(batch_size=0)
Traceback (most recent call last):
ValueError: `batch_size` must be an integer >= 1. Received: 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from tfr_ext import objectives
from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.core.settings import Settings, given, nested, setting
from tfr_ext.data.batches.batching import MAX_PADDING
from tfr_ext.evaluation.queries import DEFAULT_METRICS, Convention, plain_name
from tfr_ext.metrics import keras_metrics
from tfr_ext.models import presets
from tfr_ext.models.combination import COMBINATIONS
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.settings.model_config import LossConfig, ModelConfig

LEARNING_RATE_FORMS = (
    "'constant', 'exponential:FACTOR' (multiplied by FACTOR after each epoch), "
    "'step:EPOCHS:FACTOR' (multiplied by FACTOR every EPOCHS epochs), or 'cosine' or "
    "'cosine:WARMUP_EPOCHS' (decays to 0 over the run, after a linear warm-up)"
)


@dataclasses.dataclass(frozen=True)
class MetricsConfig(Settings):
    """Which metrics are evaluated, and by which convention."""

    GROUP = "evaluation"

    metrics: tuple[str, ...] = setting(
        DEFAULT_METRICS,
        f"Metrics to evaluate: {', '.join(objectives.names())}, with a cut-off as in "
        "ndcg_10 or ndcg@10 (all but opa).",
        kind="texts",
        convert=plain_name,
    )
    empty_list: str = setting(
        "zero",
        "How a list without a relevant item enters the mean: as 0, as 1, or not at "
        "all ('skip').",
        choices=keras_metrics.EMPTY_LIST_RULES,
    )
    gain: str = setting(
        "exponential", "Gain of a label in NDCG.", choices=("exponential", "linear")
    )
    relevance_threshold: float = setting(
        1.0, "Lowest label that counts as relevant in precision, MAP and MRR."
    )
    max_label: float | None = setting(
        None,
        "Highest grade of the collection, for ERR, nERR and losses with a max_label "
        "parameter. Inferred from the data if left out.",
        kind="number",
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
        super().__post_init__()
        if not self.metrics:
            raise ValueError("`metrics` must name at least one metric.")

    def convention(self) -> Convention:
        """Returns the convention. Its highest label is 1 if `max_label` is left out."""
        return Convention(
            gain=self.gain,
            empty_list=self.empty_list,
            relevance_threshold=self.relevance_threshold,
            max_label=1.0 if self.max_label is None else self.max_label,
        )


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Settings):
    """Settings of a training run: what is trained, its files and its output.

    What the scorer goes by the number of training queries in is None until `sized`.
    """

    GROUP = "training"

    COMMAND: ClassVar[str] = "train"

    data: DataConfig = nested(DataConfig)
    evaluation: MetricsConfig = nested(MetricsConfig)
    model_dir: str | None = setting(
        None,
        "Directory to which all files of the run are written.",
        group="run",
        kind="path",
    )
    model: ModelConfig = nested(ModelConfig)
    loss: LossConfig = nested(LossConfig)
    optimizer: str = setting("adam", "Name of a Keras optimizer.")
    learning_rate: float = setting(1e-3, "Learning rate of the optimizer.", low=0.0)
    learning_rate_schedule: str = setting(
        "constant", f"How the learning rate changes: {LEARNING_RATE_FORMS}."
    )
    label_sampling: str = setting(
        "none",
        "Train on labels drawn from a binomial distribution around the given ones "
        "(`num_label_trials`, `max_label`): 'run' draws them once, 'epoch' anew for "
        "each epoch. Validation and test labels stay as they are.",
        choices=("none", "run", "epoch"),
    )
    num_label_trials: int = setting(
        32,
        "Number of draws whose mean becomes a label under `label_sampling`; the more "
        "draws, the closer it is to the given label.",
        low=1,
    )
    batch_size: int = setting(
        None,
        "Maximum number of lists per batch. By default 32 for 'auto' with fewer than "
        "800 training queries and 128 with more, and 128 for the other scorers.",
        kind="integer",
        low=1,
    )
    max_padding: float = setting(
        MAX_PADDING,
        "Maximum ratio of all items, padding included, to real items, over all "
        "batches. Where full batches of lists of similar length would exceed it, "
        "batches are made smaller. 0 keeps all batches full, however much padding "
        "they need.",
        low=0.0,
    )
    num_epochs: int = setting(
        None,
        "Maximum number of epochs. By default 100 for 'auto' with fewer than 800 "
        "training queries and 30 with more, and 50 for the other scorers.",
        kind="integer",
        low=1,
    )
    early_stopping_patience: int = setting(
        None,
        "Stop after this many epochs without a better `monitor`; 0 never stops early. "
        "By default 20 for 'auto' with fewer than 800 training queries and 10 with "
        "more, and 0 for the other scorers.",
        kind="integer",
        low=0,
    )
    monitor: str = setting(
        "ndcg_10",
        "Validation metric that selects the best checkpoint and decides early "
        "stopping.",
        convert=plain_name,
    )
    num_models: int = setting(
        1,
        "Number of models that are trained on the same data, with `seed`, `seed` + 1 "
        "and so on, and are evaluated and exported as one (`ensemble`). Each is a run "
        "of its own in models/ of `model_dir`.",
        low=1,
    )
    ensemble: str = setting(
        "mean",
        "What `num_models` models give as one: the 'mean' of their scores; the mean "
        "of their scores standardised within each list ('zscore'); or the mean of "
        "their ranks, with a minus sign ('rank').",
        choices=COMBINATIONS,
    )
    parallel_models: int = setting(
        1,
        "How many of `num_models` models are trained at the same time, each in a "
        "process that holds the data. The result is the same.",
        group="run",
        low=1,
    )
    overwrite: bool = setting(
        False,
        "Replace the run in `model_dir`, except its exported versions, as soon as the "
        "new run saves a checkpoint, which is at the end of its first epoch or after "
        "`checkpoint_minutes`.",
        group="run",
    )
    checkpoint_epochs: int = setting(
        1,
        "Number of epochs from one checkpoint to the next; an interrupted run goes on "
        "from the last one. Values above 1 save time when epochs are short.",
        group="run",
        low=1,
    )
    checkpoint_minutes: float = setting(
        10.0,
        "Minutes after which training saves everything in the middle of an epoch, "
        "from where it then goes on; 0 for never.",
        group="run",
        low=0.0,
    )
    draw_curves: bool = setting(True, "Draw curves.png at the end.", group="run")
    export_model: bool = setting(
        True, "Export the model for serving at the end.", group="run"
    )
    callbacks: tuple[str, ...] = setting(
        (),
        "A Keras callback of your own for training: 'module:Class', or "
        "'module:function' for a function that returns one. The module must be "
        "installed, or a file in the working directory. Repeatable; an empty value "
        "drops all callbacks given before it.",
        kind="repeated",
        key="callback",
    )
    strategy: str = setting(
        "none",
        "Devices to train on: 'none' for one, 'mirrored' for all GPUs of this "
        "machine, 'multi_worker' for the machines that TF_CONFIG lists, of which all "
        "take the same step, 'parameter_server' for machines that take their steps "
        "independently. `batch_size` counts the lists of a step on all devices.",
        choices=("none", "mirrored", "multi_worker", "parameter_server"),
    )
    gpus: tuple[int, ...] = setting(
        (),
        "Numbers of the GPUs to train on, such as 0 or 0,2, as `nvidia-smi` lists "
        "them; all of this machine if left out. Without a `strategy`, one.",
        kind="integers",
        low=0,
    )
    memory_growth: bool = setting(
        True,
        "Take memory of GPUs as it is needed. Otherwise TensorFlow takes nearly all "
        "of it at the start.",
    )
    logical_cpus: int = setting(
        1,
        "Split the CPU into this many devices, to try `strategy='mirrored'` without "
        "GPUs.",
        low=1,
    )
    mixed_precision: str = setting(
        "none",
        "Compute the hidden layers in half precision. Scores and losses stay float32.",
        choices=("none", "float16", "bfloat16"),
    )
    jit_compile: bool = setting(
        False,
        "Compile the training step with XLA. The model then computes padding too, "
        "which is wasted work.",
    )
    jit_compile_loss: bool = setting(
        False,
        "Compile the loss and its gradient with XLA, and not the model. Where lists "
        "are short, steps with SmoothI or WassRank are faster, but each new shape of a "
        "batch first takes seconds.",
    )
    steps_per_execution: int = setting(
        1,
        "Number of training steps that TensorFlow runs in one call from Python. More "
        "are faster when steps are short, but the loss is checked, and its scheduled "
        "parameters are set, only once per call. Keras 3 gets the largest number up "
        "to this one that divides the steps of an epoch.",
        low=1,
    )
    verbose: str = setting(
        "bar",
        "How to show the progress of training: as a bar, as a line per epoch, or not "
        "at all. A bar becomes a line per epoch if the output is not a terminal.",
        group="run",
        choices=("silent", "bar", "line"),
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
        named = self.callbacks if isinstance(self.callbacks, (list, tuple)) else ()
        if any(hasattr(one, "on_epoch_end") for one in named):
            raise ValueError(
                "`callbacks` must be names, such as 'module:Class'. Pass callback "
                "objects to `train(config, callbacks=[...])`."
            )
        super().__post_init__()
        self._complete(None)
        self._check_ensemble()
        self._check_strategy()
        if self.jit_compile and self.jit_compile_loss:
            raise ValueError(
                f"{given('jit_compile_loss', True)} has no meaning with "
                f"{given('jit_compile', True)}, which compiles the loss too."
            )
        if 0 < self.max_padding < 1:
            raise ValueError(
                "`max_padding` must be 0 or at least 1. Received: "
                f"{self.max_padding:g}."
            )

    def sized(self, num_queries: int) -> TrainingConfig:
        """Returns these settings, with those that go by the number of queries.

        Args:
            num_queries: number of training queries, without those held out.

        Examples:
            >>> config = TrainingConfig(num_epochs=3)
            >>> config.batch_size, config.sized(100).batch_size
            (None, 32)
        """
        copy = dataclasses.replace(self)
        copy._complete(num_queries)
        return copy

    def left_out(self, name: str) -> Any:
        """Returns the default of a setting, which may depend on the scorer."""
        own = presets.training(self.model.model, None)
        return own[name] if name in own else super().left_out(name)

    def _complete(self, num_queries: int | None) -> None:
        for name, value in presets.training(self.model.model, num_queries).items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    def _check_ensemble(self) -> None:
        """Checks the settings of several models."""
        count, seed = self.num_models, self.data.seed
        if count == 1 and self.ensemble != "mean":
            raise ValueError(
                f"{given('ensemble', self.ensemble)} has no meaning with one model. "
                "Give `num_models`."
            )
        if seed + count - 1 > HIGHEST_SEED:
            raise ValueError(
                f"{given('num_models', count)} takes the seeds from "
                f"{given('seed', seed)} on, which would exceed {HIGHEST_SEED}."
            )
        if self.parallel_models > 1 and self.strategy != "none":
            raise ValueError(
                f"{given('parallel_models', self.parallel_models)} has no meaning with "
                f"{given('strategy', self.strategy)}, under which the models are "
                "trained one after the other."
            )

    def _check_strategy(self) -> None:
        """Checks the settings that do not go with every strategy."""
        name, formatted, wrong = self.strategy, given("strategy", self.strategy), ""
        numbers = f"`gpus={','.join(map(str, self.gpus))}`"
        if name == "parameter_server" and self.loss.loss_diagnostics:
            wrong = f"{given('loss_diagnostics', True)}: workers return no gradients"
        if name == "parameter_server" and self.mixed_precision == "float16":
            wrong = (
                f"{given('mixed_precision', self.mixed_precision)}, which needs a "
                "scaled loss. 'bfloat16' does not"
            )
        compiled = "jit_compile" if self.jit_compile else "jit_compile_loss"
        if name == "parameter_server" and getattr(self, compiled):
            wrong = (
                f"{given(compiled, True)}: XLA reaches no variables on other machines"
            )
        if name == "none" and len(self.gpus) > 1:
            wrong = f"{numbers}: it trains on one. Take `strategy='mirrored'`"
        if len({*self.gpus}) < len(self.gpus):
            wrong = f"{numbers}, which names a GPU twice"
        if wrong:
            raise ValueError(f"{formatted} does not go with {wrong}.")
