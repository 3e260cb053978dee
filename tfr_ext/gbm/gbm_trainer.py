"""Trains gradient-boosted trees as the settings say."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext import losses
from tfr_ext.core import checks
from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import queries
from tfr_ext.gbm import boosters
from tfr_ext.gbm.gbm_config import LAMBDARANK, YETIRANK, GbmConfig
from tfr_ext.gbm.gradient_objective import GradientObjective
from tfr_ext.gbm.kl_objectives import (
    ListwiseKLGaussianObjective,
    PointwiseKLBinomialObjective,
)
from tfr_ext.gbm.list_objective import Objective
from tfr_ext.models.categories import describe
from tfr_ext.models.trees import gbm_model
from tfr_ext.models.trees.category_codes import Codes
from tfr_ext.runs import outputs
from tfr_ext.runs.run_directory import RunDirectory
from tfr_ext.serving import model_file
from tfr_ext.sources import data_splits, wanted_labels
from tfr_ext.training.diagnosis import label_fit

# The files of models, and of their digests, which are removed last.
MODELS = [
    *(n for kind in gbm_model.LIBRARIES for n in gbm_model.file_names(kind)),
    gbm_model.CATEGORIES,
    gbm_model.DIGESTS,
]
# The files of a run, in the order in which they are removed.
_FILES = [*outputs.RESULTS, *MODELS, "flags.cfg"]
# The losses with derivatives in NumPy.
_OWN: Mapping[str, Any] = {
    losses.PointwiseKLBinomialLoss.KEY: PointwiseKLBinomialObjective,
    losses.ListwiseKLGaussianLoss.KEY: ListwiseKLGaussianObjective,
}
# The parameters of the libraries' own objectives.
_KNOWN = {
    LAMBDARANK: (
        *("lambdarank_truncation_level", "lambdarank_norm", "sigmoid", "label_gain"),
    ),
    YETIRANK: (
        *("mode", "top", "decay", "permutations", "num_neighbors"),
        *("dcg_type", "dcg_denominator", "noise", "noise_power"),
    ),
}


@dataclasses.dataclass(frozen=True)
class GbmResult:
    """Result of a training run of trees.

    Attributes:
        metrics: the mean of each metric, by split ('valid' and 'test').
        history: the monitored metric in training and validation after each tree, the
            mean over the models that have as many; empty if a finished run was found.
        num_trees: of each model, the number of trees that are best in validation.
        paths: the files of the run, by name.
        model_dir: the directory of the run.
    """

    metrics: Mapping[str, Mapping[str, float | None]]
    history: Mapping[str, list[float]]
    num_trees: Sequence[int]
    paths: Mapping[str, str]
    model_dir: str

    @functools.cached_property
    def model(self) -> gbm_model.GbmModel:
        """The model with its best trees."""
        return gbm_model.load(self.model_dir)


def train(config: GbmConfig, splits: data_splits.Splits | None = None) -> GbmResult:
    """Trains and evaluates gradient-boosted trees, and leaves all files in `model_dir`.

    The files are those of `tfr_ext.training.train`, with the model in place of the
    checkpoints and the export, so that runs of both can be compared. Missing features
    stay missing: the libraries have branches for them. If it was interrupted, the next
    call trains anew; if the run is finished, it returns the results of that run.

    Args:
        config: the settings, with `model_dir`.
        splits: lists to train, validate and test on, in memory. By default, lists are
            read as the settings of the data say.

    Raises:
        ValueError: If settings or data are wrong, a library is not installed, or
            `model_dir` holds something else.
        OSError: If a file cannot be read or written.
        FloatingPointError: If the gradient of a loss becomes NaN or infinite.

    Examples:
        >>> import tempfile
        >>> from tfr_ext.training import DataConfig
        >>> folder = tempfile.TemporaryDirectory()
        >>> result = train(GbmConfig(
        ...     data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
        ...     objective="smoothi_loss", params={"topn": 3}, min_data_in_leaf=2,
        ...     num_trees=5, draw_curves=False, model_dir=folder.name)
        ... )  # doctest: +ELLIPSIS
        train: 12 queries, 60 items of 25 features, ...
        >>> len(result.history["val_ndcg_10"]), result.num_trees[0] <= 5
        (5, True)
        >>> result.model.predict(np.zeros([2, 25])).shape
        (2,)
        >>> folder.cleanup()
    """
    if config.model_dir is None:
        raise ValueError("`model_dir` must be given: training writes its files there.")
    origin = data_splits.in_memory(config.data, splits)
    check(config)
    directory = run_directory(config, origin is not None)
    with directory.alone():
        return _train(config, origin, directory)


def check(config: GbmConfig) -> None:
    """Checks the settings that need no data."""
    _objective(config, _with_max_label(config, 1.0))
    convention = config.evaluation.convention()
    names = queries.parse_names(config.evaluation.metrics)
    for name in [*names, *queries.parse_names([config.monitor], "monitor")]:
        convention.objective(name)


def check_data(config: GbmConfig) -> None:
    """Reads the data as training does, and checks that it fits the settings."""
    _check_labels(config, data_splits.load(data_splits.with_missing(config.data)))


def run_directory(config: GbmConfig, in_memory: bool = False) -> RunDirectory:
    """Returns the directory of a run, which keeps nothing before it is finished."""
    return RunDirectory(config, in_memory, _FILES)


def _train(
    config: GbmConfig,
    origin: data_splits.MemorySource | None,
    directory: RunDirectory,
) -> GbmResult:
    files = directory.files
    directory.check(data_splits.paths(config.data))
    data = data_splits.with_missing(config.data)
    splits = data_splits.load(data, origin)
    directory.check_data(splits.digest)
    found = directory.finished()
    if found is not None:
        metrics = {split: found[split] for split in ("valid", "test")}
        kept = tuple(found.get("trees", ()))
        return GbmResult(metrics, {}, kept, files.paths(), str(config.model_dir))
    highest = _check_labels(config, splits)
    convention = dataclasses.replace(config.evaluation.convention(), max_label=highest)
    train: Any = splits.train  # In memory: `GbmConfig` takes no `stream`.
    codes = Codes.learnt(train)
    known = codes.known if codes else {}
    for line in describe(known, train.spec, splits.valid, splits.test):
        say(line)
    trained = [
        _boost(config, config.data.seed + number, splits, highest, convention, codes)
        for number in range(config.num_models)
    ]
    library = _library(config)
    model = gbm_model.GbmModel([one.booster for one in trained], library, codes)
    history = {
        config.monitor: _mean([one.train for one in trained]),
        f"val_{config.monitor}": _mean([one.valid for one in trained]),
    }
    sign = 1 if queries.higher_is_better(config.monitor) else -1
    history = {name: [sign * v for v in values] for name, values in history.items()}
    directory.begin()
    model.save(files.directory)
    content = outputs.write_evaluation(
        config,
        config.objective,
        wanted_labels.from_config(config.data).describe(),
        files,
        splits,
        model.score_lists,
        history,
        trained[0].best,
        convention,
    )
    trees = [one.best for one in trained]
    content["trees"] = trees
    content["feature_names"] = model_file.names_of(
        *(splits.train.feature_names, splits.elwc_features),
        splits.train.num_features,
    )
    content["versions"][library] = gbm_model.imported(library).__version__
    metrics = outputs.finish(
        files,
        content,
        f"Trees by validation {config.monitor}: {', '.join(map(str, trees))} of "
        f"{config.num_trees}. {convention.describe()}",
    )
    where = files.paths(), str(config.model_dir)
    return GbmResult(metrics, history, tuple(trees), *where)


def _boost(
    config: GbmConfig,
    seed: int,
    splits: data_splits.Splits,
    highest: float,
    convention: queries.Convention,
    codes: Codes | None,
) -> boosters.Boosted:
    """Trains one model."""
    params = _with_max_label(config, highest)
    objective = _objective(config, params)
    sign = 1 if queries.higher_is_better(config.monitor) else -1

    def evaluate(lists: RankingLists, scores: np.ndarray) -> float:
        values = queries.per_query(lists, scores, [config.monitor], convention)
        mean = queries.means(values)[config.monitor]
        return -np.inf if mean is None else sign * mean

    train: Any = splits.train
    given = (seed, train, splits.valid, evaluate, codes)
    if config.objective == YETIRANK:
        return boosters.with_catboost(config, params, *given)
    return boosters.with_lightgbm(config, objective, params, *given)


def _check_labels(config: GbmConfig, splits: data_splits.Splits) -> float:
    """Checks the labels and weights, and returns the highest label."""
    everything: list[Any] = [splits.train, splits.valid, splits.test]
    labels = wanted_labels.from_config(config.data)
    highest = labels.highest(config.evaluation.max_label, everything)
    name, train = config.objective, everything[0]
    if name not in (LAMBDARANK, YETIRANK):
        label_fit.check_max_label(name, dict(config.params), everything)
    if name == LAMBDARANK and np.any(train.labels % 1):
        wrong = train.labels[train.labels % 1 != 0][0]
        raise ValueError(
            f"{given('objective', name)} needs integer labels, and there is a label "
            f"{wrong:g}."
        )
    if name == YETIRANK and train.weights is not None:
        raise ValueError(
            f"{given('objective', name)} takes no weights of items, which the training "
            "lists have."
        )
    return highest


def _mean(several: Sequence[Sequence[float]]) -> list[float]:
    """Returns the mean at each place, over the rows that are long enough."""
    longest = max(map(len, several))
    table = np.full([len(several), longest], np.nan)
    for row, values in zip(table, several):
        row[: len(values)] = values
    return [float(value) for value in np.nanmean(table, axis=0)]


def _library(config: GbmConfig) -> str:
    """Returns the name of the library that trains."""
    return "catboost" if config.objective == YETIRANK else "lightgbm"


def _with_max_label(config: GbmConfig, highest: float) -> dict[str, Any]:
    """Returns the parameters of the objective, with the highest label if need be."""
    params = dict(config.params)
    if config.objective not in _KNOWN and label_fit.needs_max_label(
        config.objective, params
    ):
        params["max_label"] = highest
    return params


def _objective(config: GbmConfig, params: Mapping[str, Any]) -> Objective | None:
    """Returns the objective; None for one of the library's own."""
    name = config.objective
    if name in _KNOWN:
        for one in params:
            if one not in _KNOWN[name]:
                raise ValueError(
                    f"`params[{one!r}]`: {name} has no such parameter"
                    f"{checks.near(one, [*_KNOWN[name]])} It has "
                    f"{', '.join(_KNOWN[name])}."
                )
    try:
        gbm_model.imported(_library(config))
        if (name in _KNOWN or name in _OWN) and config.hessian != "gradient":
            raise ValueError(
                f"{given('hessian', config.hessian)} has no meaning with {name}, which "
                "has Hessians of its own."
            )
        if name in _KNOWN:
            return None
        if name in _OWN:
            return _OWN[name](**params)
        return GradientObjective(losses.get(name, **params), config.hessian)
    except (AttributeError, ImportError, TypeError, ValueError) as error:
        formatted = [given("objective", name)]
        formatted += [given(f"params[{one!r}]", value) for one, value in params.items()]
        text = re.sub(r"`(\w+)`", lambda m: _named(m, params), str(error))
        raise ValueError(f"{' '.join(formatted)}: {text}") from error


def _named(match: re.Match[str], params: Mapping[str, Any]) -> str:
    """Returns the name of a parameter of a loss in messages."""
    return f"`params['{match[1]}']`" if match[1] in params else match[0]
