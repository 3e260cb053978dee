"""Settings of the training of gradient-boosted trees."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from tfr_ext.core.setting_kinds import HIGHEST_SEED
from tfr_ext.core.settings import Settings, given, nested, same_setting, setting
from tfr_ext.gbm.gradient_objective import HESSIANS
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.settings.training_config import MetricsConfig, TrainingConfig

LAMBDARANK, YETIRANK = "lambdarank", "yetirank"
# The settings that CatBoost's symmetric trees do not have.
_LIGHTGBM_ONLY = ("num_leaves", "min_data_in_leaf", "min_sum_hessian_in_leaf")


@dataclasses.dataclass(frozen=True)
class GbmConfig(Settings):
    """A training run of gradient-boosted trees.

    A setting that is left out where None is its default has the default of the library.

    Examples:
        >>> GbmConfig(objective="smoothi_loss", params={"topn": 10}).num_trees
        300
    """

    GROUP = "training"

    COMMAND: ClassVar[str] = "train_gbm"

    data: DataConfig = nested(DataConfig)
    evaluation: MetricsConfig = nested(MetricsConfig)
    model_dir: str | None = same_setting(TrainingConfig, "model_dir")
    objective: str = setting(
        LAMBDARANK,
        "What the trees are trained with: 'lambdarank', LightGBM's LambdaMART; "
        "'yetirank', CatBoost's YetiRank; or the key of a loss, such as smoothi_loss "
        "or pirank_ndcg_loss, which trains trees of LightGBM.",
        group="loss",
    )
    params: Any = setting(
        {},
        "A parameter of the objective, as name=value: of a loss, its parameters; of "
        "'lambdarank' and 'yetirank', those of the library, such as "
        "lambdarank_truncation_level=10 and mode=NDCG. Repeatable; the last value of a "
        "name counts, and an empty one drops all parameters given before it.",
        group="loss",
        kind="parameters",
        key="loss_param",
    )
    hessian: str = setting(
        "gradient",
        "The Hessians that a loss gives: 'gradient', the sizes of its gradients; "
        "'constant'; or 'diagonal', the sizes of its second derivatives. The losses "
        "pointwise_kl_binomial_loss and listwise_kl_gaussian_loss have Hessians of "
        "their own.",
        group="loss",
        choices=HESSIANS,
    )
    num_trees: int = setting(300, "Maximum number of trees.", low=1)
    learning_rate: float = setting(
        0.1, "Learning rate, by which each tree is multiplied.", low=0.0
    )
    num_leaves: int | None = setting(
        None,
        "Maximum number of leaves of a tree. Only for LightGBM.",
        group="model",
        kind="integer",
        low=2,
    )
    max_depth: int | None = setting(
        None, "Maximum depth of a tree.", group="model", kind="integer", low=1
    )
    min_data_in_leaf: int | None = setting(
        None,
        "Minimum number of items in a leaf. Only for LightGBM.",
        group="model",
        kind="integer",
        low=1,
    )
    min_sum_hessian_in_leaf: float | None = setting(
        None,
        "Minimum sum of the Hessians of the items in a leaf. Only for LightGBM.",
        group="model",
        kind="number",
        low=0.0,
    )
    leaf_l2: float | None = setting(
        None,
        "L2 regularisation of the values of leaves.",
        group="model",
        kind="number",
        low=0.0,
    )
    feature_fraction: float = setting(
        1.0,
        "Share of the features that each tree (with CatBoost, each split) may use.",
        low=1e-6,
        high=1.0,
    )
    bagging_fraction: float = setting(
        1.0, "Share of the items that each tree is grown on.", low=1e-6, high=1.0
    )
    num_models: int = setting(
        1,
        "Number of models that are trained on the same data, with `seed`, `seed` + 1 "
        "and so on, and whose mean score ranks. LightGBM's models differ only with "
        "`feature_fraction` or `bagging_fraction` below 1.",
        low=1,
        high=99,
    )
    early_stopping_patience: int = setting(
        0,
        "Stop after this many trees without a better `monitor`; 0 never stops early.",
        low=0,
    )
    monitor: str = same_setting(TrainingConfig, "monitor")
    overwrite: bool = setting(
        False,
        "Replace the run in `model_dir` as soon as the new one has trained.",
        group="run",
    )
    draw_curves: bool = same_setting(TrainingConfig, "draw_curves")
    num_threads: int = setting(
        0,
        "Number of threads; 0 for one per core. The results of LightGBM do not depend "
        "on it.",
        group="run",
        low=0,
    )

    def __post_init__(self) -> None:
        """Checks the settings, and that they fit each other."""
        super().__post_init__()
        if self.data.stream:
            raise ValueError(
                "`stream=True` has no meaning here: trees need all lists in memory."
            )
        if self.data.seed + self.num_models - 1 > HIGHEST_SEED:
            raise ValueError(
                f"{given('num_models', self.num_models)} takes the seeds from "
                f"{given('seed', self.data.seed)} on, which would exceed "
                f"{HIGHEST_SEED}."
            )
        for name in _LIGHTGBM_ONLY:
            value = getattr(self, name)
            if self.objective == YETIRANK and value is not None:
                raise ValueError(
                    f"{given(name, value)} has no meaning with `objective='yetirank'`, "
                    "whose trees are symmetric. Give `max_depth`."
                )
