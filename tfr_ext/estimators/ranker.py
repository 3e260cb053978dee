"""A ranker with the interface of scikit-learn's estimators."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import messages, which_keras
from tfr_ext.data.batches.batching import score_lists
from tfr_ext.data.lists import RankingLists
from tfr_ext.estimators import as_settings, rows, saved
from tfr_ext.estimators.measured import Measured
from tfr_ext.estimators.sklearn_base import BaseEstimator, NotFittedError, parameters
from tfr_ext.evaluation import queries
from tfr_ext.serving import exporter
from tfr_ext.serving.signatures import fills_missing
from tfr_ext.settings.data_checks import AUTO, KEPT_MISSING
from tfr_ext.sources import data_splits
from tfr_ext.training.trainer import train

_SCORED = 1 << 14  # Items that are scored at a time, or a batch of training.


class Ranker(Measured, BaseEstimator):
    """A neural ranker that is used like the rankers of LightGBM and XGBoost.

    It trains the network and the loss that `python -m pipelines.train` trains with the
    same settings, on arrays or a data frame with one row per item. The rows of a query
    must be next to each other; `group` (the number of rows of each query) or `qid` (the
    query of each row) says which they are. The best epoch by `monitor` is kept,
    measured on the queries of `eval_set` or on a share of the queries that is held out.

    With scikit-learn installed it is an estimator that clones, pickles, and works in
    `GridSearchCV` with `GroupKFold`; there it is easiest to give a data frame as `X`,
    and the name of its column of queries as `query`.

    The names of columns are texts: the column 3 of a data frame is also '3'. So
    `query` may be either, and two columns of one name are an error.

    `fit` sets TensorFlow's seed and determinism in this process, and leaves the random
    numbers of NumPy and Python as they were. Before it, other methods raise
    `NotFittedError`. If it fails or is interrupted, the ranker is what it was before.

    Attributes:
        model_: the Keras model, which takes `{'float_features', 'mask'}`.
        history_: per epoch, the loss and metrics in training and validation.
        best_epoch_: the epoch that was kept, counted from 1.
        n_features_in_: number of features; of a data frame, of their columns.
        feature_names_in_: their names, if `X` was a data frame.
        spec_: what the features are, if some are no numbers, or of the context.
        max_label_: the highest label in training and validation.
        params_: the parameters of this `fit`. `predict` and `export` go by them, and
            `score` and `evaluate` measure by the present `monitor`, `metrics`, `gain`,
            `empty_list`, `relevance_threshold` and `max_label`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=[200, 4])
        >>> y = (X[:, 0] + X[:, 1] > 1).astype(int)
        >>> ranker = tfr_ext.Ranker(
        ...     loss="smoothi_loss", hidden_sizes=(8,), num_epochs=5)
        >>> ranker = ranker.fit(X, y, group=[10] * 20)
        >>> scores = ranker.predict(X, group=[10] * 20)
        >>> scores.shape, 0.5 < ranker.score(X, y, group=[10] * 20) <= 1
        ((200,), True)
    """

    def __init__(
        self,
        loss: str = "smoothi_loss",
        loss_params: Mapping[str, Any] | None = None,
        hidden_sizes: Sequence[int] | None = None,
        activation: str = "relu",
        dropout: float | None = None,
        batch_normalization: bool | None = None,
        l2_regularization: float | None = None,
        feature_transforms: Sequence[str] | None = None,
        optimizer: str = "adam",
        learning_rate: float = 1e-3,
        learning_rate_schedule: str = "constant",
        batch_size: int | None = None,
        num_epochs: int | None = None,
        early_stopping_patience: int | None = None,
        validation_fraction: float = 0.2,
        num_models: int = 1,
        monitor: str = "ndcg_10",
        metrics: Sequence[str] = queries.DEFAULT_METRICS,
        gain: str = "exponential",
        empty_list: str = "zero",
        relevance_threshold: float = 1.0,
        max_label: float | None = None,
        random_state: int | None = 1,
        verbose: int | str = "auto",
        query: str | int | None = None,
        model_dir: str | None = None,
        settings: Mapping[str, Any] | None = None,
        model: str = "auto",
        categories: Sequence[str] | str = "auto",
        texts: Sequence[str] = (),
        embeddings: Sequence[str] = (),
        context: Sequence[str] = (),
    ):
        """Initialises the ranker; `fit` checks the parameters.

        Args:
            loss: key of a loss, see `tfr_ext.losses.keys()`.
            loss_params: its arguments, such as `{'alpha': 2.0}`.
            hidden_sizes: number of units of each hidden layer; () is a linear scorer.
                None, here and below, is the default of `model`: 256 and 128 for
                'auto', 1,024 for 'mlp'.
            activation: activation of the hidden layers.
            dropout: share of hidden units dropped in training.
            batch_normalization: whether inputs and hidden layers are normalised.
            l2_regularization: see `tfr_ext.models.MLPScorer`.
            feature_transforms: transforms that the model applies to features first,
                such as 'log1p'.
            optimizer: name of a Keras optimizer.
            learning_rate: learning rate.
            learning_rate_schedule: how it changes, such as 'cosine'.
            batch_size: maximum number of lists per batch.
            num_epochs: maximum number of epochs.
            early_stopping_patience: epochs without a better `monitor`; 0 never stops.
            validation_fraction: share of the queries that is held out if there is no
                `eval_set`; then, it must be above 0.
            num_models: number of models, trained with `random_state`, `random_state`
                + 1 and so on, that are one in `model_`. The setting 'ensemble' says how
                their scores are combined.
            monitor: the metric that selects the best epoch, and that `score` returns.
            metrics: the metrics of `evaluate`.
            gain: gain of a label in NDCG, 'exponential' or 'linear'.
            empty_list: how a list without a relevant item enters means.
            relevance_threshold: lowest label that counts as relevant in precision, MAP
                and MRR.
            max_label: the highest grade; None for the highest label that `fit` gets.
            random_state: seed of all random numbers; None draws one.
            verbose: 0 for silence, in which warnings are Python's, 1 for a bar, 2 for a
                line per epoch; 'auto' for a bar on a terminal or in a notebook, and
                silence elsewhere, such as in joblib's workers.
            query: column of the queries if `X` is a data frame.
            model_dir: directory for the files of the training, with which another `fit`
                goes on after an interruption; by default, no files are kept.
            settings: any other setting of `tfr_ext.training.TrainingConfig` by its
                name, such as `{'mixed_precision': 'bfloat16'}`.
            model: the scorer, such as 'auto', 'mlp' or 'transformer'.
            categories: columns of a data frame whose values are names, such as brands:
                texts, whole numbers, or lists of up to 8 of them. 'auto' for all of the
                types category and string, () for none.
            texts: columns of a data frame that are texts, such as titles, whose words
                count; `query` may be one.
            embeddings: columns of a data frame of arrays or lists of numbers, as an
                encoder made them; the model takes the cosine of each of `context` with
                each of the items, and with setting 'embedding_inputs' the numbers too.
            context: columns of a data frame that have one value a query, such as a
                user's segment or the query's words.

        Raises:
            ValueError: If Keras has another backend than TensorFlow.
        """
        given = locals()
        which_keras.check_backend(type(self).__name__)
        for name in parameters(Ranker):
            setattr(self, name, given[name])

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        group: Any = None,
        qid: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        eval_group: Any = None,
        eval_qid: Any = None,
    ) -> Ranker:
        """Trains the ranker.

        Args:
            X: features `[num_items, num_features]`: an array, a sparse matrix, which is
                made dense, or a data frame. NaN is a missing one, in whose place the
                model puts the mean of the training items (setting 'missing').
            y: labels `[num_items]`, `>= 0`.
            group: number of rows of each query, in their order.
            qid: the query of each row.
            sample_weight: weights, one per row or one per query.
            eval_set: features and labels to validate on, `(X, y)`.
            eval_group: number of rows of each query of `eval_set`.
            eval_qid: the query of each row of `eval_set`.

        Returns:
            This ranker.

        Raises:
            ValueError: If a parameter is out of range, or the data do not fit together;
                the message names the argument or the row.
            FloatingPointError: If the loss becomes NaN or infinite.
        """
        if y is None:
            raise ValueError(
                "Ranker requires y to be passed, but the target y is None."
            )
        params = self._params()
        config = as_settings.training_config(params)
        keeps = config.data.keeps_missing
        lists = rows.lists(
            X,
            y,
            group,
            qid,
            sample_weight,
            self.query,
            missing=keeps,
            categories=self.categories,
            texts=self.texts,
            embeddings=self.embeddings,
            context=self.context,
            **rows.of_kinds(config.data, self.texts, self.embeddings),
        )
        spec, columns = lists.spec, lists.feature_names
        if spec is not None:
            columns = [feature.name for feature in spec.features]
        if eval_set is None and (eval_group is not None or eval_qid is not None):
            raise ValueError("`eval_group` and `eval_qid` need an `eval_set`.")
        if eval_set is None:
            splits = rows.held_out(lists, config)
        else:
            judged = rows.only_one(eval_set, eval_group, eval_qid)
            own = self.query, columns, "eval_set", keeps
            valid = rows.lists(*judged, None, *own, spec=spec)
            splits = data_splits.Splits(lists, valid, valid)
        silent = config.verbose == "silent"
        quiet = messages.silent() if silent else contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            stack.enter_context(quiet)
            stack.enter_context(as_settings.in_words())
            if config.model_dir is None:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                config = config.sized(splits.train.num_lists)
                config = dataclasses.replace(
                    config,
                    model_dir=folder,
                    checkpoint_epochs=config.num_epochs,
                    draw_curves=False,
                    export_model=False,
                )
            result = train(config, splits)
            fitted = {
                "model_": result.model,
                "history_": dict(result.history),
                "best_epoch_": result.best_epoch,
                "n_features_in_": len(columns or ()) or lists.num_features,
                "max_label_": max(lists.max_label, splits.valid.max_label),
                "params_": {**params, "random_state": config.data.seed},
            }
        if columns is not None:
            fitted["feature_names_in_"] = np.array(columns, dtype=object)
        if spec is not None:
            fitted["spec_"] = spec
        others = {x: value for x, value in vars(self).items() if x not in saved.FITTED}
        self.__dict__ = {**others, **fitted}  # At once, whatever may interrupt it.
        return self

    def predict(self, X: Any, *, group: Any = None, qid: Any = None) -> np.ndarray:
        """Scores items; the higher, the better.

        Args:
            X: features as `fit` takes them.
            group: number of rows of each query; needed if scores depend on the list,
                as with 'query_minmax' or 'transformer'.
            qid: the query of each row.

        Returns:
            float32 scores `[num_items]`, in the order of the rows.

        Raises:
            ValueError: If the features are not those of `fit`, or one is NaN, and none
                was in `fit`.
        """
        self._check_fitted()
        X, query = rows.taken(X), self.params_["query"]
        if group is None and qid is None and rows.query_of(X, query) is None:
            as_settings.check_single_items(self)
            # A list has one context.
            spec = getattr(self, "spec_", None)
            alone = spec is not None and any(x.context for x in spec.features)
            group = rows.any_groups(X, 1) if alone else rows.any_groups(X)
        return self._scores(self._lists(X, None, group, qid))

    def save(self, directory: str) -> None:
        """Saves the fitted ranker, its parameters and its model, for `load`.

        Args:
            directory: directory to which the files are written.

        Raises:
            ValueError: If another process saves a ranker there.
        """
        self._check_fitted()
        saved.write(directory, self)

    @classmethod
    def load(cls, directory: str) -> Ranker:
        """Loads what `save` wrote, and runs no code that is in the files.

        Args:
            directory: the directory.

        Raises:
            ValueError: If the directory has no ranker, a file is damaged, the model has
                parts that no ranker has, see SECURITY.md, or another Keras saved it.
        """
        return saved.read(directory, cls)

    def export(self, directory: str) -> str:
        """Exports the model for TensorFlow Serving, as `pipelines.train` does.

        Args:
            directory: the directory of versions that TensorFlow Serving watches.

        Returns:
            The directory of the new version.
        """
        self._check_fitted()
        spec = getattr(self, "spec_", None)
        names = getattr(self, "feature_names_in_", None)
        names = names if spec is None else spec.feature_names
        config = as_settings.training_config(self.params_)
        about = {
            "loss": config.loss.loss,
            "transforms": list(config.model.feature_transforms),
            "best_epoch": self.best_epoch_,
        }
        return exporter.export_ranker(
            self.model_,
            directory,
            self.max_label_,
            feature_names=None if names is None else list(names),
            about={"missing": config.data.missing, "models": [about]},
            spec=spec,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state to pickle: the attributes, and the versions of a model."""
        return saved.state(vars(self))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `__getstate__` returned."""
        self.__dict__.update(saved.restored(state))

    def __sklearn_tags__(self) -> Any:
        """Returns scikit-learn's tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        given = self.settings if isinstance(self.settings, Mapping) else {}
        tags.input_tags.allow_nan = given.get("missing", AUTO) in KEPT_MISSING
        return tags

    def _params(self) -> dict[str, Any]:
        """Returns the parameters of this class; a subclass may have others."""
        given = {name: getattr(self, name) for name in parameters(Ranker)}
        return {x: dict(v) if isinstance(v, Mapping) else v for x, v in given.items()}

    def _lists(self, X: Any, y: Any, group: Any, qid: Any) -> RankingLists:
        """Returns rows as lists, with the features of `fit`."""
        self._check_fitted()
        columns, spec = (getattr(self, x, None) for x in ("feature_names_in_", "spec_"))
        query, keeps = self.params_["query"], fills_missing(self.model_)
        found = rows.lists(
            X, y, group, qid, None, query, columns, "X", keeps, spec=spec
        )
        if spec is None and found.num_features != self.n_features_in_:
            raise ValueError(
                f"X has {found.num_features} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )
        return found

    def _scores(self, lists: RankingLists) -> np.ndarray:
        many = _SCORED // max(1, int(lists.lengths.max(initial=1)))
        size = max(self.params_["batch_size"] or 128, many)
        return score_lists(self.model_, lists, size)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call `fit` "
                "with the judged items before using it."
            )
