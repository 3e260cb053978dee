"""BERT, against vectors that Hugging Face's made with the same weights."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from tests.text import encoder_files
from tfr_ext.text import Encoder

REFERENCE = json.loads(
    (pathlib.Path(__file__).parent / "reference.json").read_text(encoding="utf-8")
)
TOKENS = tf.constant([[2, 5, 14, 3, 6, 7, 3], [2, 5, 3, 0, 0, 0, 0], [0] * 7])


def bert(tmp_path, **options):
    path = encoder_files.write(tmp_path / "encoder")
    return Encoder.load(str(path), **options).bert


def test_vectors_of_a_pair_are_those_of_hugging_face(tmp_path):
    pair = REFERENCE["pair"]
    found = bert(tmp_path)(tf.constant([pair["ids"]]))
    np.testing.assert_allclose(found[0], pair["hidden"], atol=2e-6)


def test_with_and_without_dropping_padding(tmp_path):
    values = []
    for drops in (True, False):
        layer = bert(tmp_path, drop_padding=drops)
        with tf.GradientTape() as tape:
            found = layer(TOKENS)
            loss = tf.reduce_sum(found * tf.sin(tf.range(8.0)))
        gradients = tape.gradient(loss, [*layer.named.values()])
        values.append([found, *map(tf.convert_to_tensor, gradients)])
    for one, other in zip(*values, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_padding_is_invisible(tmp_path):
    layer = bert(tmp_path)
    found = layer(TOKENS)
    assert not found[2].numpy().any() and not found[1, 3:].numpy().any()
    alone = layer(TOKENS[1:2, :3])
    np.testing.assert_allclose(found[1, :3], alone[0], atol=2e-6)
    more = layer(tf.pad(TOKENS, [[0, 1], [0, 5]]))
    np.testing.assert_allclose(more[:3, :7], found, atol=2e-6)


def test_xla(tmp_path):
    layer = bert(tmp_path, drop_padding=False)
    compiled = tf.function(lambda x: layer(x), jit_compile=True)
    np.testing.assert_allclose(compiled(TOKENS), layer(TOKENS), atol=2e-6)


def test_half_precision_is_close(tmp_path):
    exact = bert(tmp_path)(TOKENS)
    for policy in ("mixed_bfloat16", "mixed_float16"):
        found = bert(tmp_path, dtype=policy)(TOKENS)
        assert found.dtype == policy.removeprefix("mixed_")
        assert np.abs(tf.cast(found, tf.float32) - exact).max() < 0.2


def test_units_are_dropped_in_training_only(tmp_path):
    layer = bert(tmp_path)
    first, second = layer(TOKENS, training=True), layer(TOKENS, training=True)
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(layer(TOKENS), layer(TOKENS, training=False))


def test_a_keras_file_round_trips(tmp_path):
    layer = bert(tmp_path)
    tokens = tf.keras.Input([None], dtype="int32")
    model = tf.keras.Model(tokens, layer(tokens))
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    np.testing.assert_array_equal(loaded(TOKENS), model(TOKENS))
