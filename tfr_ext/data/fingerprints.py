"""The numbers that stand for the values of categories: in readers and in requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

MISSING, FILL = -1, -2
"""The ids of a missing value, and of places that no value of an item takes."""
# Before lowering, where a sigma that ends a word is another one. What selects the
# picture of an emoji is a mark, but not of a word.
_SEPARATED = {
    r"[\x{FE00}-\x{FE0F}\x{E0100}-\x{E01EF}\x{20E3}]": "",
    r"[^\p{L}\p{M}\p{N}]+": " ",
}
# Of Chinese and Japanese, which have no spaces, each character is a word. The scripts
# lack the marks of long vowels and of repetition.
_CHARACTERS = {
    r"[\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}\x{3006}\x{303C}]\p{M}*": r" \0 "
}
# Upper case that `tf.strings.lower` lowers by the locale of the machine, as it does I.
_OF_LOCALES = {"İ": "i̇", "Ì": "ì", "Í": "í", "Ĩ": "ĩ", "Į": "į"}


def fingerprint(texts: tf.Tensor) -> tf.Tensor:
    """Returns the int64 fingerprint of each text: any bytes; `MISSING` if it is empty.

    Examples:
        >>> fingerprint(tf.constant(["", "acme"])).numpy().tolist()
        [-1, 301347925294522931]
    """
    found = tf.strings.to_hash_bucket_fast(texts, 2**63 - 1)
    return tf.where(tf.equal(texts, ""), tf.constant(MISSING, tf.int64), found)


def several(ids: tf.Tensor) -> tf.Tensor:
    """Returns the ids `[..., width]` of values, with `FILL` for those that are missing.

    Only an item without a value keeps `MISSING`, in the first place.
    """
    if ids.shape[-1] == 1:
        return ids
    missing = tf.equal(ids, MISSING)
    none = tf.reduce_all(missing, axis=-1, keepdims=True)
    first = tf.equal(tf.range(tf.shape(ids)[-1]), 0)
    kept = tf.where(missing, tf.constant(FILL, tf.int64), ids)
    return tf.where(none & first, tf.constant(MISSING, tf.int64), kept)


def words(texts: tf.Tensor) -> tf.RaggedTensor:
    r"""Returns the words of UTF-8 texts, `[texts, (words)]`, in lower case.

    A word is a run of letters, marks and digits, or a Chinese or Japanese character.
    What is not UTF-8 separates words.

    Examples:
        >>> words(tf.constant(["Wi-Fi 6 für Café", "東京 tower", "..."])).to_list()
        [[b'wi', b'fi', b'6', b'f\xc3\xbcr', b'caf\xc3\xa9'], [b'\xe6\x9d\xb1',
        b'\xe4\xba\xac', b'tower'], []]
    """
    texts = _replaced(texts, replace_control_characters=True)  # NUL ends a text.
    texts = tf.strings.lower(_each_replaced(texts, _SEPARATED))  # ASCII only.
    texts = tf.strings.lower(_each_replaced(texts, _OF_LOCALES), encoding="utf-8")
    return tf.strings.split(_each_replaced(texts, _CHARACTERS))


def _each_replaced(texts: tf.Tensor, patterns: Mapping[str, str]) -> tf.Tensor:
    for pattern, rewrite in patterns.items():
        texts = tf.strings.regex_replace(texts, pattern, rewrite)
    return texts


def _replaced(texts: tf.Tensor, **options: bool) -> tf.Tensor:
    """Returns texts with a mark in place of bytes that are not UTF-8."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", "replace", **options)


def parts_of(values: tf.RaggedTensor, kind: str) -> tf.RaggedTensor:
    """Returns what has an id: the values of a category, or the words of a text.

    Values are texts or integers, `[items, (values)]`. Those of a text are joined, and
    empty texts are no values.
    """
    if values.dtype == tf.int64:
        values = values.with_flat_values(tf.strings.as_string(values.flat_values))
    if kind == "text":
        return words(tf.strings.reduce_join(values, axis=1, separator=" "))
    return tf.ragged.boolean_mask(values, tf.not_equal(values, ""))


def ids_of(parts: tf.RaggedTensor, width: int, kind: str) -> tf.Tensor:
    """Returns the ids of a category or text, `[items, width]`, from its `parts_of`.

    Parts beyond the width are left out, but an item with two values of a category of
    width one is an error (`tf.errors.InvalidArgumentError`).
    """
    if kind == "category" and width == 1:
        single = tf.debugging.assert_less(
            tf.reduce_max(tf.concat([parts.row_lengths(), [0]], axis=0)),
            tf.constant(2, tf.int64),
            "A category has several values; it had one in training.",
        )
        with tf.control_dependencies([single]):
            parts = parts.with_flat_values(tf.identity(parts.flat_values))
    return several(fingerprint(parts.to_tensor("", shape=[None, width])))


def ids_and_faults(
    values: tf.RaggedTensor, width: int, kind: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the ids of values, and how much of them is not used as it is.

    The values are as for `parts_of`, and the ids `[items, width]`. Two numbers `[2]`
    say how many items have more values or words than are used, and how many values of a
    text are not UTF-8.
    """
    parts, invalid = parts_of(values, kind), tf.constant(0, tf.int64)
    if kind == "text" and values.dtype == tf.string:
        texts = values.flat_values
        invalid = tf.math.count_nonzero(tf.not_equal(texts, _replaced(texts)))
    cut = tf.math.count_nonzero(parts.row_lengths() > width)
    return ids_of(parts, width, kind), tf.stack([cut, invalid])


def of_values(texts: list[bytes]) -> np.ndarray:
    """Returns the fingerprints of texts in memory."""
    return fingerprint(tf.constant(np.array(texts, object), tf.string)).numpy()


def of_texts(
    texts: Sequence[bytes], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the ids of texts, their numbers of words, and which are not UTF-8."""
    given = tf.constant(np.array(texts, object), tf.string, [len(texts)])
    parts = words(given)
    invalid = tf.not_equal(given, _replaced(given)).numpy()
    return ids_of(parts, width, "text").numpy(), parts.row_lengths().numpy(), invalid
