"""A BERT that reads a query and a document together, trained by a listwise loss."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext import losses
from tfr_ext.core import checks, json_files, which_keras
from tfr_ext.core.files import folder_aside, write_atomically
from tfr_ext.core.system import lock
from tfr_ext.data.batches.batching import MASK
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.estimators import drawn_lists
from tfr_ext.estimators.drawn_lists import TOKENS
from tfr_ext.estimators.saved import plain
from tfr_ext.estimators.sklearn_base import NotFittedError, parameters
from tfr_ext.evaluation import queries
from tfr_ext.models.ranking_model import RankingModel
from tfr_ext.serving import exporter, model_file, requests, signatures, warm_up
from tfr_ext.serving.requests import with_shape
from tfr_ext.text.encoder import Encoder
from tfr_ext.text.pairs import PairScorer, pair_tokens
from tfr_ext.training import schedules

_ABOUT = "cross_encoder.json"
_COLUMNS = ("query", "document")
_AT_ONCE = 512  # Pairs that are divided into tokens at a time; fewer are scored.
_SPEC = FeatureSpec(
    (Feature("query", "text", context=True), Feature("document", "text"))
)


class CrossEncoder:
    """A ranker of texts: BERT reads a query and a document together and scores them.

    It is trained on lists of a few relevant and a few irrelevant candidates of a query,
    by any loss of this package, as in the experiments with text of SmoothI (Thonet et
    al., 2022): Adam with one learning rate for BERT and another for the dense layer.
    `batch_size` lists make a step, as they did there by accumulated gradients. The best
    epoch on the queries that are held out is kept.

    It computes on one device, or on those of the strategy in whose scope `fit` is
    called.

    Attributes:
        model_: the Keras model, of `{'tokens': [batch, list, tokens]}`.
        encoder_: the `tfr_ext.text.Encoder`, with the tokenizer and the trained BERT.
        history_: per epoch, the 'loss', and `monitor` on the queries held out.
        best_epoch_: the epoch that was kept, counted from 1.
    """

    def __init__(
        self,
        encoder: str,
        loss: str = "smoothi_loss",
        loss_params: Mapping[str, Any] | None = None,
        learning_rate: float = 2e-5,
        head_learning_rate: float = 1e-3,
        learning_rate_schedule: str = "cosine:1",
        batch_size: int = 8,
        num_epochs: int = 10,
        early_stopping_patience: int = 0,
        num_relevant: int = 2,
        num_irrelevant: int = 2,
        max_length: int | None = None,
        parts: int = 2,
        query_tokens: int = 64,
        document_tokens: int = 800,
        monitor: str = "ndcg_10",
        validation_fraction: float = 0.2,
        mixed_precision: bool = False,
        random_state: int = 1,
        verbose: int = 1,
    ):
        """Initialises the ranker.

        Args:
            encoder: directory of a BERT, see `tfr_ext.text.Encoder.load`.
            loss: key of a loss, see `tfr_ext.losses.keys()`.
            loss_params: its arguments, such as `{'alpha': 2.0}`.
            learning_rate: learning rate of BERT.
            head_learning_rate: learning rate of the dense layer.
            learning_rate_schedule: how both change; 'cosine:1' rises for an epoch.
            batch_size: number of lists per step.
            num_epochs: number of epochs; each has one list of each query.
            early_stopping_patience: epochs without a better `monitor`; 0 never stops.
            num_relevant: how many relevant documents a list has at most.
            num_irrelevant: how many others it has, or more if relevant ones lack.
            max_length: how many tokens BERT reads at a time, of query and document;
                the encoder's own by default.
            parts: into how many parts a longer document is divided at most.
            query_tokens: how many tokens of a query count.
            document_tokens: how many tokens of a document count.
            monitor: the metric that selects the best epoch.
            validation_fraction: share of the queries that is held out.
            mixed_precision: whether BERT computes in bfloat16.
            random_state: seed of all random numbers.
            verbose: 0 for silence, 1 for a line per epoch.

        Raises:
            ValueError: If an argument is out of range.
        """
        given = locals()
        which_keras.check_backend(type(self).__name__)
        self.params = {name: given[name] for name in parameters(CrossEncoder)}
        for name in ("batch_size", "num_epochs", "num_relevant", "num_irrelevant"):
            checks.at_least(name, self.params[name], 1)
        for name in ("parts", "query_tokens", "document_tokens"):
            checks.at_least(name, self.params[name], 1)
        for name in ("learning_rate", "head_learning_rate"):
            checks.positive(name, self.params[name])
        if not 0 < validation_fraction < 1:
            raise ValueError(
                f"`validation_fraction` must be in (0, 1). Received: "
                f"{validation_fraction!r}."
            )
        if max_length is not None and max_length < query_tokens + 4:
            raise ValueError(
                f"`max_length` must be at least `query_tokens` + 4, which is "
                f"{query_tokens + 4}. Received: {max_length}."
            )
        # Not after an epoch.
        losses.get(loss, **(loss_params or {}))
        queries.higher_is_better(monitor)
        schedules.learning_rate(learning_rate_schedule, learning_rate, 1, num_epochs)

    def fit(
        self, frame: Any, callbacks: Sequence[tf.keras.callbacks.Callback] = ()
    ) -> CrossEncoder:
        """Trains the ranker.

        Args:
            frame: a row for each candidate, as `tfr_ext.text.embed` writes them: with
                the columns 'query_id', 'query', 'document' and 'label'.
            callbacks: further Keras callbacks.

        Returns:
            This ranker.

        Raises:
            ValueError: If a column or a text is missing, a label is negative or not
                finite, fewer than two queries have relevant documents and others, or
                scores are not finite after the first epoch.
        """
        given = self.params
        rng = np.random.default_rng(given["random_state"])
        train, valid = drawn_lists.divided(frame, given["validation_fraction"], rng)
        texts = [_texts(frame, x) for x in _COLUMNS]
        self.__dict__.pop("best_epoch_", None)  # Of an earlier fit, whose model goes.
        self._build()
        tokens, labels = self._tokens(*texts), np.asarray(frame["label"], np.float32)
        sizes = given["num_relevant"], given["num_irrelevant"]
        pad = self.encoder_.bert.pad
        lists = drawn_lists.dataset(tokens, labels, train, sizes, rng, pad)
        lists = lists.batch(given["batch_size"])
        steps = -(-len(train) // given["batch_size"])
        rate = schedules.learning_rate(
            *(given["learning_rate_schedule"], given["learning_rate"]),
            *(steps, given["num_epochs"]),
        )
        loss = losses.get(given["loss"], **(given["loss_params"] or {}))
        self.model_.compile(tf.keras.optimizers.Adam(rate), loss, jit_compile=False)
        # Otherwise the first step would create variables, and be traced twice.
        self.model_.optimizer.build(self.model_.trainable_variables)
        kept = drawn_lists.BestEpoch(
            *(self._scores, tokens, labels, valid, given["monitor"]),
            *(given["early_stopping_patience"], given["verbose"] > 0),
        )
        self.model_.fit(
            lists,
            epochs=given["num_epochs"],
            callbacks=[kept, *callbacks],
            shuffle=False,
            verbose=0,
        )
        self.model_.set_weights(kept.weights)
        self.history_, self.best_epoch_ = kept.history, kept.best_epoch
        return self

    def predict(self, frame: Any) -> np.ndarray:
        """Scores pairs; the higher, the better.

        Args:
            frame: with the columns 'query' and 'document'.

        Returns:
            float32 scores, in the order of the rows.
        """
        self._check_fitted()
        return self._scores(self._tokens(*(_texts(frame, x) for x in _COLUMNS)))

    def rank(
        self, query: str, documents: Sequence[str], top_k: int | None = None
    ) -> list[tuple[int, float]]:
        """Ranks documents.

        Args:
            query: the query.
            documents: the documents.
            top_k: how many are returned; all by default.

        Returns:
            The position and the score of each document, the best first.
        """
        frame = {"query": [query] * len(documents), "document": list(documents)}
        scores = self.predict(frame)
        best = np.argsort(-scores, kind="stable")[:top_k]
        return [(int(place), float(scores[place])) for place in best]

    def save(self, directory: str) -> None:
        """Saves the fitted ranker: BERT as Hugging Face has it, and the rest beside it.

        Args:
            directory: the directory, which is created if it does not exist.

        Raises:
            ValueError: If another process saves a ranker there.
        """
        self._check_fitted()
        head = [np.asarray(x).tolist() for x in (self._head.kernel, self._head.bias)]
        about: dict[str, Any] = {"params": self.params, "head": head}
        about.update(history=self.history_, best_epoch=self.best_epoch_)
        text = json.dumps(about, indent=1, default=plain)
        path = os.path.join(directory, _ABOUT)
        with lock.alone_with(path, "save"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)  # Without it, a half of a ranker is none.
            self.encoder_.save(directory)
            write_atomically(path, text + "\n")

    @classmethod
    def load(cls, directory: str) -> CrossEncoder:
        """Loads what `save` wrote.

        Args:
            directory: the directory.

        Raises:
            ValueError: If the directory has no such ranker.
        """
        path = os.path.join(directory, _ABOUT)
        if not os.path.isfile(path):
            raise ValueError(f"{directory} has no {_ABOUT}, which CrossEncoder writes.")
        kinds: json_files.Kinds = {
            **{"params": (dict,), "head": (list,), "history": (dict,)},
            "best_epoch": (int,),
        }
        about = json_files.read_object(path, "CrossEncoder.save", kinds)
        try:
            found = cls(**{**about["params"], "encoder": directory})
        except TypeError as error:
            wrong = f"{path} is not what CrossEncoder.save writes"
            raise ValueError(f"{wrong}: {error}") from error
        found._build()
        for weight, value in zip((found._head.kernel, found._head.bias), about["head"]):
            weight.assign(value)
        found.history_, found.best_epoch_ = about["history"], about["best_epoch"]
        return found

    def export(self, directory: str) -> str:
        """Exports the ranker for TensorFlow Serving.

        A request has the texts: 'query' `[batch]` and 'document' `[batch, list]`, for
        the signatures 'serving_default', 'masked' and 'rank' of
        `tfr_ext.serving.exporter.signatures`.

        Args:
            directory: the directory of versions that TensorFlow Serving watches.

        Returns:
            The directory of the new version.
        """
        self._check_fitted()
        module = tf.Module()
        module.weights = [
            x if which_keras.IS_KERAS_2 else x.value for x in self.model_.variables
        ]
        functions = self._signatures()
        about = {"loss": self.params["loss"], "best_epoch": self.best_epoch_}
        with folder_aside(directory) as aside:
            tf.saved_model.save(module, aside, signatures=functions)
            protos = model_file.protos_of(0, _SPEC)
            warm_up.write(aside, functions, 0, protos, _SPEC)
            model_file.write(
                *(aside, 0, None, None, None, _SPEC, functions), {"models": [about]}
            )
            return exporter.publish(aside, directory)

    def _signatures(self) -> dict[str, Any]:
        """Returns the functions with which texts are ranked."""
        pad = self.encoder_.bert.pad

        def score(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor:
            mask = with_shape(inputs[MASK], [None, None])
            document = with_shape(inputs["document"], [None, None])
            query = with_shape(inputs["query"], [None])
            fits = tf.debugging.assert_equal(
                *(tf.shape(mask), tf.shape(document)),
                "mask must be [batch, list], as document.",
            )
            of_lists = tf.debugging.assert_equal(
                *(tf.shape(query)[0], tf.shape(document)[0]),
                "expected a query for each list.",
            )
            with tf.control_dependencies([fits, of_lists]):
                shape = tf.shape(document)
            repeated = tf.repeat(query, shape[1])
            tokens = self._pairs(repeated, tf.reshape(document, [-1]))
            tokens = tf.reshape(tokens, [*tf.unstack(shape), tokens.shape[-1]])
            tokens = tf.where(mask[..., tf.newaxis], tokens, pad)
            scores = self.model_({TOKENS: tokens}, training=False)
            return tf.where(mask, scores, scores.dtype.min)

        request = requests.request_signature(0, _SPEC)
        mask = tf.TensorSpec([None, None], tf.bool, MASK)
        scored = tf.function(score, autograph=False)
        scored = scored.get_concrete_function({**request, MASK: mask})
        return signatures.traced(
            signatures.of_requests(scored, request, _SPEC, of_items=("document",))
        )

    def _build(self) -> None:
        """Loads the encoder, and makes the model."""
        given = self.params
        policy = {"dtype": "mixed_bfloat16"} if given["mixed_precision"] else {}
        self.encoder_ = Encoder.load(
            given["encoder"], seed=given["random_state"], **policy
        )
        positions = self.encoder_.bert.config["max_position_embeddings"]
        length = given["max_length"] or self.encoder_.max_length
        if not given["query_tokens"] + 4 <= length <= positions:
            raise ValueError(
                f"`max_length` must be at least `query_tokens` + 4 and at most the "
                f"encoder's {positions:,} positions. Received: {length}, with "
                f"query_tokens={given['query_tokens']}."
            )
        rate = given["head_learning_rate"] / given["learning_rate"]
        self._length = length
        self._head = PairScorer(self.encoder_.bert, length, rate, name="scorer")
        shape = [None, given["parts"] * length]
        tokens = tf.keras.Input(shape, dtype="int32", name=TOKENS)
        self.model_ = RankingModel({TOKENS: tokens}, self._head(tokens))

    def _pairs(self, asked: tf.Tensor, documents: tf.Tensor) -> tf.Tensor:
        given = self.params
        most = given["query_tokens"], given["document_tokens"]
        tokenizer = self.encoder_.tokenizer
        return pair_tokens(
            asked, documents, tokenizer, self._length, given["parts"], most
        )

    def _tokens(self, asked: list[str], documents: list[str]) -> np.ndarray:
        """Returns the tokens of pairs of texts."""
        parts = [
            self._pairs(
                tf.constant(asked[start : start + _AT_ONCE]),
                tf.constant(documents[start : start + _AT_ONCE]),
            ).numpy()
            for start in range(0, len(asked), _AT_ONCE)
        ]
        width = self.params["parts"] * self._length
        return np.concatenate([*parts, np.zeros([0, width], np.int32)])

    def _scores(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the scores of pairs, those of one length together."""
        pad = self.encoder_.bert.pad
        order = np.argsort((tokens != pad).sum(axis=1), kind="stable")
        scores = np.zeros(len(tokens), np.float32)
        for start in range(0, len(order), _AT_ONCE // 8):
            rows = order[start : start + _AT_ONCE // 8]
            found = self.model_({TOKENS: tf.constant(tokens[rows][np.newaxis])})
            scores[rows] = np.asarray(found)[0]
        return scores

    def _check_fitted(self) -> None:
        if not hasattr(self, "best_epoch_"):
            raise NotFittedError(
                "This CrossEncoder is not fitted yet. Call `fit` with judged "
                "candidates before using it."
            )


def _texts(frame: Any, name: str) -> list[str]:
    """Returns the texts of a column, none of which may be missing."""
    found = list(frame[name])
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueError(f"{name!r} of row {row} is {text!r}, expected a text.")
    return found
