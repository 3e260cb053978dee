"""Trains LightGBM and CatBoost, and keeps the trees that are best by our metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tfr_ext.core import messages
from tfr_ext.data.lists import RankingLists
from tfr_ext.gbm.gbm_config import LAMBDARANK, GbmConfig
from tfr_ext.gbm.list_objective import Objective
from tfr_ext.models.trees import gbm_model
from tfr_ext.models.trees.category_codes import Codes, rows

Evaluate = Callable[[RankingLists, np.ndarray], float]
"""From lists and their scores to the monitored metric, higher being better."""


@dataclasses.dataclass(frozen=True)
class Boosted:
    """A model with the `best` number of trees, and the metric after each tree grown."""

    booster: Any
    train: list[float]
    valid: list[float]
    best: int


def with_lightgbm(
    config: GbmConfig,
    objective: Objective | None,
    params: Mapping[str, Any],
    seed: int,
    train: RankingLists,
    valid: RankingLists,
    evaluate: Evaluate,
    codes: Codes | None = None,
) -> Boosted:
    """Trains trees of LightGBM, and keeps those that are best by `evaluate` on `valid`.

    Without an `objective` they are those of LambdaMART, whose parameters are `params`.
    Raises a FloatingPointError if the gradients become NaN or infinite.
    """
    lightgbm = gbm_model.imported("lightgbm")
    given = lightgbm_parameters(config, seed)
    own = LAMBDARANK if objective is None else "none"
    given |= {"objective": own, **(params if objective is None else {})}
    if isinstance(given.get("label_gain"), (list, tuple)):
        given["label_gain"] = ",".join(map(str, given["label_gain"]))
    features = rows(train, codes)  # Categories follow the numbers.
    first = codes.num_numbers if codes else train.num_features
    trained = lightgbm.Dataset(
        features,
        label=train.labels,
        group=train.lengths,
        weight=train.weights,
        categorical_feature=[*range(first, features.shape[1])] or "auto",
        params=given,
        free_raw_data=False,
    )
    validated = trained.create_valid(
        rows(valid, codes), label=valid.labels, group=valid.lengths
    )
    booster = lightgbm.Booster(given, trained)
    booster.add_valid(validated, "valid")
    values: dict[str, list[float]] = {"train": [], "valid": []}

    def note() -> float:
        for name, lists, scored in (
            ("train", train, booster.eval_train),
            ("valid", valid, booster.eval_valid),
        ):
            ((*_, value, _),) = scored(_metric(lists, evaluate))
            values[name].append(value)
        return values["valid"][-1]

    def steps() -> Iterable[float]:
        for _ in range(config.num_trees):
            if booster.update(fobj=objective):
                break  # No leaf can be split any more.
            yield note()

    best = best_step(steps(), config.early_stopping_patience)
    if not values["valid"]:
        messages.warn(
            "There is no tree, and all items have the same score, as no split improves "
            "the objective. A loss without a gradient at equal scores, such as "
            "pairwise_kl_binomial_loss, cannot begin, and lists whose labels are equal "
            "say nothing; small data need a lower `min_data_in_leaf`."
        )
        note()
    model = booster.model_to_string(num_iteration=best)
    return Boosted(
        lightgbm.Booster(model_str=model), values["train"], values["valid"], best
    )


def lightgbm_parameters(config: GbmConfig, seed: int) -> dict[str, Any]:
    """Returns the parameters of LightGBM, but for those of the objective."""
    chosen = {
        "num_leaves": config.num_leaves,
        "max_depth": config.max_depth,
        "min_data_in_leaf": config.min_data_in_leaf,
        "min_sum_hessian_in_leaf": config.min_sum_hessian_in_leaf,
        "lambda_l2": config.leaf_l2,
    }
    return {
        "learning_rate": config.learning_rate,
        "feature_fraction": config.feature_fraction,
        "bagging_fraction": config.bagging_fraction,
        "bagging_freq": int(config.bagging_fraction < 1),
        "seed": seed % 2**31,  # LightGBM's seeds are 32-bit integers with a sign.
        "num_threads": config.num_threads,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "None",
        "verbosity": -1,
        **{name: value for name, value in chosen.items() if value is not None},
    }


def with_catboost(
    config: GbmConfig,
    params: Mapping[str, Any],
    seed: int,
    train: RankingLists,
    valid: RankingLists,
    evaluate: Evaluate,
    codes: Codes | None = None,
) -> Boosted:
    """Trains trees with CatBoost's YetiRank, whose parameters are `params`.

    All trees are grown, and those after the best one dropped: CatBoost cannot stop by a
    metric that it does not know.
    """
    catboost = gbm_model.imported("catboost")
    formatted = ";".join(f"{name}={value}" for name, value in params.items())
    given: dict[str, Any] = {
        "loss_function": "YetiRank" + (f":{formatted}" if formatted else ""),
        "iterations": config.num_trees,
        "learning_rate": config.learning_rate,
        "rsm": config.feature_fraction,
        "random_seed": seed,
        "thread_count": config.num_threads or -1,
        "allow_writing_files": False,
        "logging_level": "Silent",
    }
    if config.max_depth is not None:
        given["depth"] = config.max_depth
    if config.leaf_l2 is not None:
        given["l2_leaf_reg"] = config.leaf_l2
    if config.bagging_fraction < 1:
        given |= {"bootstrap_type": "Bernoulli", "subsample": config.bagging_fraction}
    query = np.repeat(np.arange(train.num_lists), train.lengths)
    trained, validated = (
        gbm_model.for_catboost(rows(lists, codes), codes) for lists in (train, valid)
    )
    pool = catboost.Pool(trained, train.labels, group_id=query)
    try:
        booster = catboost.train(pool, given)
    except catboost.CatBoostError as error:
        raise ValueError(f"CatBoost: {str(error).splitlines()[0]}") from error
    values: dict[str, list[float]] = {"train": [], "valid": []}

    def steps() -> Iterable[float]:
        staged = zip(booster.staged_predict(trained), booster.staged_predict(validated))
        for of_train, of_valid in staged:
            values["train"].append(evaluate(train, of_train))
            values["valid"].append(evaluate(valid, of_valid))
            yield values["valid"][-1]

    best = best_step(steps(), config.early_stopping_patience)
    booster.shrink(ntree_end=best)
    return Boosted(booster, values["train"], values["valid"], best)


def best_step(values: Iterable[float], patience: int) -> int:
    """Returns the number of the best step, counted from 1; the first of equals.

    Values are taken one by one, and no more after `patience` of them without a better
    one; all are if it is 0.

    Examples:
        >>> best_step([0.3, 0.5, 0.4, 0.4, 0.9], patience=2), best_step([1, 2, 0, 3], 0)
        (2, 4)
    """
    best, highest = 1, -np.inf
    for number, value in enumerate(values, 1):
        if value > highest:
            best, highest = number, value
        elif patience and number - best >= patience:
            break
    return best


def _metric(lists: RankingLists, evaluate: Evaluate) -> Callable[..., Any]:
    def metric(scores: np.ndarray, dataset: Any) -> tuple[str, float, bool]:
        return "monitor", evaluate(lists, scores), True

    return metric
