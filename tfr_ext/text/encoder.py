"""Encoders: a tokenizer and a BERT, in the files of Hugging Face."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import files, json_files
from tfr_ext.data import text_files
from tfr_ext.text.bert import CONFIG, ONLY, WRITER, Bert, is_kernel, read_config
from tfr_ext.text.word_piece import VOCABULARY, WordPiece

_WEIGHTS = "model.safetensors"
# What sentence-transformers adds.
_LIMIT, _POOLING, _MODULES = (
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    "modules.json",
)


class Encoder:
    """A BERT that makes a vector of each text, as sentence-transformers does.

    Attributes:
        tokenizer: what divides texts into tokens.
        bert: the layer.
        pooling: 'mean' of the vectors of all tokens, or 'cls', the vector of '[CLS]'.
        normalized: whether vectors have the length 1.
        max_length: how many tokens of a text count, '[CLS]' and '[SEP]' included.
        digest: of the files from which it was loaded.
    """

    def __init__(
        self,
        tokenizer: WordPiece,
        bert: Bert,
        pooling: str = "mean",
        normalized: bool = False,
        max_length: int | None = None,
    ):
        """Initialises the encoder, see the attributes.

        Raises:
            ValueError: If the tokenizer has other ids than the layer.
        """
        pieces, size = len(tokenizer.vocabulary), bert.config["vocab_size"]
        if pieces > size:
            raise ValueError(
                f"{VOCABULARY} has {pieces:,} pieces, but 'vocab_size' is {size:,}."
            )
        self.tokenizer, self.bert, self.digest = tokenizer, bert, ""
        self.pooling, self.normalized = pooling, normalized
        positions = bert.config["max_position_embeddings"]
        self.max_length = min(positions, max_length or positions)
        if self.max_length < 3:
            raise ValueError(
                f"`max_length` must be at least 3. Received: {self.max_length}."
            )
        if not bert.built:
            bert.build((None, None))

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self.bert.config["hidden_size"]

    @classmethod
    def load(cls, directory: str, **options: Any) -> Encoder:
        """Loads an encoder.

        Args:
            directory: a directory of Hugging Face or sentence-transformers, with
                'config.json', 'vocab.txt' and 'model.safetensors'.
            **options: further arguments of `Bert`.

        Raises:
            ImportError: If safetensors is not installed.
            ValueError: If a file is missing, or is not of a BERT.
            OSError: If a file cannot be read.
        """
        paths = [os.path.join(directory, x) for x in (CONFIG, VOCABULARY, _WEIGHTS)]
        if os.path.isfile(paths[0]):  # Of another model, other files are missing.
            read_config(directory)
        lacking = [os.path.basename(x) for x in paths if not os.path.isfile(x)]
        if lacking:
            raise ValueError(
                f"{directory}: expected the directory of a BERT, with {CONFIG}, "
                f"{VOCABULARY} and {_WEIGHTS}. Missing: {', '.join(lacking)}."
            )
        config, tokenizer = read_config(directory), WordPiece.load(directory)
        bert = Bert(config, tokenizer.pad, tokenizer.end, **options)
        pooling, normalized, limit = _sentence_settings(directory)
        try:
            encoder = cls(tokenizer, bert, pooling, normalized, limit)
        except ValueError as error:
            raise ValueError(f"{directory}: {error}") from error
        _assign(bert, paths[-1])
        settings = pooling, normalized, limit, tokenizer.lowercase
        digest = hashlib.sha256(repr(settings).encode())
        for path in paths:
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        encoder.digest = digest.hexdigest()
        return encoder

    def save(self, directory: str) -> None:
        """Saves the encoder, for `load`, Hugging Face and sentence-transformers.

        Args:
            directory: the directory, which is created if it does not exist.
        """
        names = ("pooling_mode_mean_tokens", "pooling_mode_cls_token")
        pooling = dict(zip(names, (self.pooling == "mean", self.pooling == "cls")))
        modules = ["", "1_Pooling", "2_Normalize"][: 2 + self.normalized]
        kinds = ("Transformer", "Pooling", "Normalize")
        contents: dict[str, Any] = {
            CONFIG: {**ONLY, "architectures": ["BertModel"], **self.bert.config}
            | {"pad_token_id": self.bert.pad},
            _LIMIT: {"max_seq_length": self.max_length, "do_lower_case": False},
            _POOLING: {"word_embedding_dimension": self.width, **pooling},
            _MODULES: [
                {"idx": i, "name": f"{i}", "path": path}
                | {"type": f"sentence_transformers.models.{kind}"}
                for i, (path, kind) in enumerate(zip(modules, kinds))
            ],
        }
        for name, content in contents.items():
            path = os.path.join(directory, name)
            files.write_atomically(path, json.dumps(content, indent=2) + "\n")
        self.tokenizer.save(directory)
        weights = {x: np.asarray(weight) for x, weight in self.bert.named.items()}
        weights = {
            name: np.ascontiguousarray(x.T if is_kernel(name) else x)
            for name, x in weights.items()
        }
        content = _safetensors().save(weights, metadata={"format": "pt"})
        with files.whole_file(os.path.join(directory, _WEIGHTS)) as file:
            file.write(content)

    def tokens(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns the ids of texts, `[texts, tokens]`, with padding at the end."""
        return framed([self.tokenizer(texts)], self.tokenizer, self.max_length)

    def vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of the texts of tokens, float32 `[texts, width]`."""
        found = tf.cast(self.bert(tokens), tf.float32)
        if self.pooling == "cls":
            found = tf.reduce_sum(found[:, :1], axis=1)  # Without texts, too.
        else:
            count = tf.math.count_nonzero(tokens != self.bert.pad, 1, dtype=tf.float32)
            found = tf.reduce_sum(found, axis=1)
            found = tf.math.divide_no_nan(found, count[:, tf.newaxis])
        return tf.math.l2_normalize(found, axis=-1) if self.normalized else found

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of texts, float32 `[texts, width]`."""
        return self.vectors(self.tokens(texts))

    def embed(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, width]`.

        Args:
            texts: the texts. Those of one length are computed together.
            batch_size: how many at a time.
        """
        ids = self.tokenizer(tf.constant(list(texts), tf.string))
        return self.embed_ids(ids, batch_size)

    def embed_ids(self, ids: tf.RaggedTensor, batch_size: int = 32) -> np.ndarray:
        """Returns the vectors of texts, of which `tokenizer` returned the ids."""
        order = np.argsort(ids.row_lengths().numpy(), kind="stable")
        found = np.zeros([len(order), self.width], np.float32)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found[rows] = self._of_rows(tf.gather(ids, rows))
        return found

    @functools.cached_property
    def _of_rows(self) -> Callable[[tf.RaggedTensor], tf.Tensor]:
        def of_rows(ids: tf.RaggedTensor) -> tf.Tensor:
            return self.vectors(framed([ids], self.tokenizer, self.max_length))

        spec = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
        return tf.function(of_rows, input_signature=[spec], autograph=False)


def framed(
    parts: Sequence[tf.RaggedTensor], tokenizer: WordPiece, most: int
) -> tf.Tensor:
    """Returns '[CLS]', and each part with '[SEP]' behind it, `[texts, tokens]`.

    Parts are ids, `[texts, (tokens)]`; the last is cut to keep within `most` tokens.
    """
    *before, last = parts
    special = tf.zeros([last.nrows(), 1], tf.int32)
    end = special + tokenizer.end
    found: list[Any] = [special + tokenizer.start]
    for part in before:
        found += [part, end]
    room = most - 2 - sum(part.row_lengths() + 1 for part in before)
    lengths = last.row_lengths()
    is_in = tf.ragged.range(lengths).flat_values < tf.repeat(
        tf.broadcast_to(tf.cast(room, lengths.dtype), tf.shape(lengths)), lengths
    )
    found += [tf.ragged.boolean_mask(last, last.with_flat_values(is_in)), end]
    return tf.concat(found, axis=1).to_tensor(tokenizer.pad)


def _sentence_settings(directory: str) -> tuple[str, bool, int | None]:
    """Returns how vectors are pooled, whether they are normalised, and their limit.

    Without the files of sentence-transformers, these are its defaults.
    """
    pooling, normalized, limit = "mean", False, None
    path = os.path.join(directory, _POOLING)
    if os.path.exists(path):
        found = json_files.read_object(path, WRITER)
        modes = [x for x in found if x.startswith("pooling_mode_") and found[x] is True]
        if modes not in (["pooling_mode_cls_token"], ["pooling_mode_mean_tokens"]):
            raise ValueError(
                f"{path}: expected the pooling of the mean or of '[CLS]'. Found: "
                f"{', '.join(modes) or 'none'}."
            )
        pooling = "cls" if "cls" in modes[0] else "mean"
    path = os.path.join(directory, _LIMIT)
    if os.path.exists(path):
        kinds = {"max_seq_length": (int, type(None))}
        limit = json_files.read_object(path, WRITER, kinds).get("max_seq_length")
    path = os.path.join(directory, _MODULES)
    if os.path.exists(path):
        known = ["Transformer", "Pooling", "Normalize"]
        try:
            modules = json.loads(text_files.read_text(path))
            kinds_of = [x["type"].rpartition(".")[2] for x in modules]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{path}: expected a JSON list of modules, each with its 'type'."
            ) from error
        if kinds_of not in (known, known[:2]):
            raise ValueError(
                f"{path}: expected the modules {', '.join(known)}. Found: "
                f"{', '.join(kinds_of)}."
            )
        normalized = kinds_of == known
    return pooling, normalized, limit


def _safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise ImportError(
            f"The files of encoders need safetensors ({error}). Install it: "
            "pip install tfr-ext[text]"
        ) from error


def _assign(bert: Bert, path: str) -> None:
    """Sets the weights of a layer to those of a file, which must have them all."""
    numpy = _safetensors()
    try:
        found = numpy.load_file(path)
    except Exception as error:  # It has a class of its own for damaged files.
        raise ValueError(f"{path}: {error}") from error
    found = {x.removeprefix("bert."): weight for x, weight in found.items()}
    for name, weight in bert.named.items():
        for new, old in (("LayerNorm.weight", "gamma"), ("LayerNorm.bias", "beta")):
            if name.endswith(new) and name not in found:
                name = f"{name.rpartition('.')[0]}.{old}"
        if name not in found:
            raise ValueError(f"{path}: expected the weights {name!r}. Found: none.")
        given = found[name].T if is_kernel(name) else found[name]
        if given.shape != tuple(weight.shape):
            raise ValueError(
                f"{path}: expected {name!r} of the shape {[*weight.shape]}, as "
                f"{CONFIG} says. Found: {[*given.shape]}."
            )
        weight.assign(given.astype(np.float32))
