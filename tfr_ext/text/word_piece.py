"""BERT's tokenizer in TensorFlow's own operations, in Python and in exports."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.core import files, json_files
from tfr_ext.data import text_files
from tfr_ext.data.fingerprints import fingerprint

VOCABULARY, _CONFIG = "vocab.txt", "tokenizer_config.json"
_MOST_CHARACTERS = 100  # Longer words are unknown.
_KEPT, _SPACE, _ALONE, _SEVERAL = range(1, 5)  # 0: the code point is dropped.
PAD, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


class WordPiece:
    """Divides texts into the pieces of words that a BERT knows.

    The ids are those of Hugging Face's `BertTokenizerFast`, but for texts in which
    special tokens stand, such as '[SEP]': here they are text as any other.

    Attributes:
        vocabulary: the pieces; the place of each is its id.
        pad, unknown, start, end: the ids of '[PAD]', '[UNK]', '[CLS]' and '[SEP]'.

    Examples:
        >>> tokenizer = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "run", "##ning"])
        >>> tokenizer(tf.constant(["Running, run!"])).to_list()
        [[4, 5, 1, 4, 1]]
    """

    def __init__(self, vocabulary: Sequence[str], lowercase: bool = True):
        """Initialises the tokenizer.

        Args:
            vocabulary: the pieces; those inside of words begin with '##'.
            lowercase: whether texts lose upper case and accents first.

        Raises:
            ValueError: If a special token is missing, or a piece comes twice.
        """
        self.vocabulary = list(vocabulary)
        self.lowercase = lowercase
        places = {piece: place for place, piece in enumerate(self.vocabulary)}
        lacking = [x for x in (PAD, UNKNOWN, START, END) if x not in places]
        if lacking:
            raise ValueError(
                f"the vocabulary lacks {', '.join(lacking)}: it is not one of BERT's."
            )
        if len(places) < len(self.vocabulary):
            twice = next(x for i, x in enumerate(self.vocabulary) if places[x] != i)
            raise ValueError(f"the vocabulary has {twice!r} twice.")
        self.pad, self.unknown, self.start, self.end = (
            places[name] for name in (PAD, UNKNOWN, START, END)
        )
        # Special tokens are not pieces: texts have none.
        pieces = [x for x in places if not (x.startswith("[") and x.endswith("]"))]
        keys = fingerprint(tf.constant(pieces)).numpy()
        order = np.argsort(keys)
        self._keys = keys[order]
        self._ids = np.array([places[x] for x in pieces], np.int32)[order]
        self._longest = max((len(x.removeprefix("##")) for x in pieces), default=1)

    @classmethod
    def load(cls, directory: str) -> WordPiece:
        """Loads the tokenizer of a Hugging Face directory.

        Args:
            directory: a directory with 'vocab.txt' and, if it is not the default,
                'tokenizer_config.json'.

        Raises:
            ValueError: If the tokenizer is not one of BERT's.
            OSError: If a file cannot be read.
        """
        path = os.path.join(directory, VOCABULARY)
        vocabulary = [line for _, line in text_files.read_lines(path)]
        about = os.path.join(directory, _CONFIG)
        settings = {}
        if os.path.exists(about):
            settings = json_files.read_object(about, "Hugging Face")
        lowercase = settings.get("do_lower_case", True)
        for name, known in (
            ("tokenizer_class", (None, "BertTokenizer", "BertTokenizerFast")),
            ("do_basic_tokenize", (True,)),
            ("strip_accents", (None, lowercase)),
            ("tokenize_chinese_chars", (True,)),
            ("unk_token", (UNKNOWN,)),
            ("cls_token", (START,)),
            ("sep_token", (END,)),
            ("pad_token", (PAD,)),
        ):
            found = settings.get(name, known[0])
            if isinstance(found, dict):  # As some versions write special tokens.
                found = found.get("content")
            if found not in known:
                raise ValueError(
                    f"{about}: expected {name!r} to be {known[-1]!r}. Found: {found!r}."
                )
        try:
            return cls(vocabulary, lowercase)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, directory: str) -> None:
        """Writes 'vocab.txt' and 'tokenizer_config.json' to a directory."""
        pieces = "".join(f"{piece}\n" for piece in self.vocabulary)
        files.write_atomically(os.path.join(directory, VOCABULARY), pieces)
        settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": self.lowercase}
        content = json.dumps(settings, indent=2)
        files.write_atomically(os.path.join(directory, _CONFIG), content)

    @functools.cached_property
    def _function(self) -> tf.types.experimental.GenericFunction:
        texts = tf.TensorSpec([None], tf.string)
        return tf.function(self._pieces, [texts], autograph=False)

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns int32 ids of pieces, `[texts, (pieces)]`; drops what is not UTF-8."""
        return self._function(texts)

    def _pieces(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = tf.strings.split(_normalized(texts, self.lowercase))
        distinct, places = tf.unique(words.flat_values)
        # [texts, (words), (pieces)], without the bounds of words.
        found = tf.gather(self._of_words(distinct), places)
        splits = tf.gather(found.row_splits, words.row_splits)
        return tf.RaggedTensor.from_row_splits(found.flat_values, splits)

    def _of_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of each word: the longest piece first, then of the rest."""
        lengths = tf.strings.length(words, unit="UTF8_CHAR")
        known = tf.where(lengths <= _MOST_CHARACTERS)[:, 0]
        unknown = tf.where(lengths > _MOST_CHARACTERS)[:, 0]
        keys, ids = tf.constant(self._keys), tf.constant(self._ids)

        def array(dtype: tf.DType) -> tf.TensorArray:
            return tf.TensorArray(
                *(dtype, 1), dynamic_size=True, infer_shape=False, element_shape=[None]
            )

        def step(
            number: tf.Tensor,
            active: tf.Tensor,
            start: tf.Tensor,
            end: tf.Tensor,
            of: tf.TensorArray,
            pieces: tf.TensorArray,
        ) -> tuple:
            """Looks each word's characters from start to end up."""
            part = tf.gather(words, active)
            part = tf.strings.substr(part, start, end - start, unit="UTF8_CHAR")
            part = tf.where(start > 0, "##" + part, part)
            key = fingerprint(part)
            place = tf.minimum(tf.searchsorted(keys, key), len(self._keys) - 1)
            is_piece = tf.equal(tf.gather(keys, place), key)
            of_piece = tf.gather(ids, place)
            length = tf.gather(lengths, active)
            is_unknown = ~is_piece & (end - 1 <= start)
            emitted = is_piece | is_unknown
            of = of.write(number, active[emitted])
            of_piece = tf.where(is_piece, of_piece, self.unknown)
            pieces = pieces.write(number, of_piece[emitted])
            left = ~(is_unknown | (is_piece & tf.equal(end, length)))
            start = tf.where(is_piece, end, start)
            after = tf.minimum(length, end + self._longest)
            end = tf.where(is_piece, after, end - 1)
            return number + 1, active[left], start[left], end[left], of, pieces

        of, pieces = array(tf.int64), array(tf.int32)
        of = of.write(0, unknown)
        pieces = pieces.write(0, tf.fill(tf.shape(unknown), self.unknown))
        start = tf.zeros_like(known, tf.int32)
        end = tf.minimum(tf.gather(lengths, known), self._longest)
        if self._ids.size:
            *_, of, pieces = tf.while_loop(
                lambda number, active, *_: tf.size(active) > 0,
                step,
                [tf.constant(1), known, start, end, of, pieces],
                shape_invariants=[
                    tf.TensorShape([]),
                    *[tf.TensorShape([None])] * 3,
                    *[tf.TensorShape(None)] * 2,
                ],
            )
        found_of, found = of.concat(), pieces.concat()
        # A word that is unknown in part is unknown as a whole.
        is_unknown = tf.equal(found, self.unknown)
        words_unknown = tf.scatter_nd(
            found_of[:, tf.newaxis],
            tf.cast(is_unknown, tf.int32),
            tf.cast(tf.shape(words), tf.int64),
        )
        kept = is_unknown | tf.equal(tf.gather(words_unknown, found_of), 0)
        found_of, found = found_of[kept], found[kept]
        order = tf.argsort(found_of, stable=True)
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(found, order),
            tf.gather(found_of, order),
            nrows=tf.size(words, tf.int64),
        )


@functools.cache
def _table(lowercase: bool) -> dict[str, np.ndarray]:
    """Returns what becomes of code points, see benchmarks/code_points.py."""
    path = os.path.join(os.path.dirname(__file__), "code_points.npz")
    prefix = "uncased_" if lowercase else "cased_"
    with np.load(path) as file:
        return {x.removeprefix(prefix): file[x] for x in file if x.startswith(prefix)}


def _normalized(texts: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """Returns texts with a space between words."""
    table = _table(lowercase)
    points = tf.strings.unicode_decode(texts, "UTF-8")
    point = points.flat_values
    place = tf.gather(table["page"], point // 256) * 256 + point % 256
    value = tf.gather(table["pages"].reshape(-1), place)
    kind, target = value % 8, point + value // 8
    # Each code point becomes as many as its kind says, of which the target is one.
    lengths = tf.gather([0, 1, 1, 3, table["sequences"].shape[1]], kind)
    ends = tf.cumsum(lengths)
    source = tf.repeat(tf.range(tf.size(point)), lengths)
    offset = tf.range(tf.size(source)) - tf.gather(ends - lengths, source)
    of_kind, target = tf.gather(kind, source), tf.gather(target, source)
    space = tf.equal(of_kind, _SPACE) | (tf.equal(of_kind, _ALONE) & (offset != 1))
    found = tf.where(space, ord(" "), target)
    if len(table["sequences"]):
        several = tf.equal(of_kind, _SEVERAL)
        places = tf.stack([tf.where(several, target, 0), offset], axis=1)
        found = tf.where(several, tf.gather_nd(table["sequences"], places), found)
    bounds = tf.gather(tf.concat([[0], ends], axis=0), points.row_splits)
    kept = found > 0  # Zeros fill sequences.
    before = tf.cumsum(tf.concat([[0], tf.cast(kept, tf.int32)], axis=0))
    rows = tf.cast(tf.gather(before, bounds), tf.int64)
    found = tf.RaggedTensor.from_row_splits(found[kept], rows, validate=False)
    return tf.strings.unicode_encode(found, "UTF-8")
