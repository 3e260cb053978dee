"""Pairs of texts: their tokens, and the layer that scores them."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.text import encoder_files
from tfr_ext.text import Encoder
from tfr_ext.text.pairs import PairScorer, pair_tokens

PAD, START, END, THE, UN, RUN = 0, 2, 3, 5, 6, 14
LENGTH, PARTS = 9, 2


@pytest.fixture
def encoder(tmp_path):
    return Encoder.load(str(encoder_files.write(tmp_path)))


def expected(query, document, most=(4, 100)):
    """The tokens of a pair, in plain loops."""
    query, document = query[: most[0]], document[: most[1]]
    room = LENGTH - 3 - len(query)
    document = document[: PARTS * room]
    needed = max(1, math.ceil(len(document) / room))
    share = math.ceil(len(document) / needed)
    tokens = []
    for part in range(PARTS):
        own = document[part * share : (part + 1) * share]
        of_part = [START, *query, END, *own, END] if part < needed else []
        tokens += of_part + [PAD] * (LENGTH - len(of_part))
    return tokens


@pytest.mark.any_keras
def test_a_document_is_divided_evenly_into_as_few_parts_as_hold_it(encoder):
    pairs = [(q, d) for q in range(6) for d in (*range(16), 30)]
    queries = ["the " * q for q, _ in pairs]
    documents = [" ".join(["run", "un"][i % 2] for i in range(d)) for _, d in pairs]
    for most in ((4, 100), (2, 7)):
        found = pair_tokens(
            *(tf.constant(queries), tf.constant(documents)),
            *(encoder.tokenizer, LENGTH, PARTS, most),
        )
        for row, (q, d) in zip(found.numpy().tolist(), pairs, strict=True):
            words = [[RUN, UN][i % 2] for i in range(d)]
            assert row == expected([THE] * q, words, most), (q, d, most)


def test_scores_are_of_the_mean_of_the_parts(encoder):
    layer = PairScorer(encoder.bert, LENGTH, rate=3.0)
    one, two, none = [START, THE, END], [START, UN, END, RUN, END], []

    def pair(*parts):
        return [x for part in parts for x in [*part, *[PAD] * (LENGTH - len(part))]]

    tokens = tf.constant(
        [[pair(one, two), pair(two, none)], [pair(none, none), pair(one, none)]]
    )
    scores = layer(tokens)
    kernel, bias = np.asarray(layer.kernel), np.asarray(layer.bias)
    vectors = [encoder.bert(tf.constant([x]))[0, 0].numpy() for x in (one, two)]
    means = [np.mean(vectors, axis=0), vectors[1], np.zeros(8), vectors[0]]
    by_hand = 3 * (np.array(means) @ kernel + bias)
    np.testing.assert_allclose(np.ravel(scores), by_hand[:, 0], atol=2e-6)


def test_adam_takes_longer_steps_for_the_head(encoder):
    layer = PairScorer(encoder.bert, LENGTH, rate=50.0)
    tokens = tf.keras.Input([None, PARTS * LENGTH], dtype="int32")
    model = tf.keras.Model(tokens, layer(tokens))
    model.compile(tf.keras.optimizers.Adam(1e-4, epsilon=1e-12), "mse")
    given = tf.constant([[expected([THE], [RUN, UN]), expected([UN], [RUN] * 9)]])
    watched = {
        "kernel": layer.kernel,
        "bias": layer.bias,
        "query": encoder.bert.named["encoder.layer.0.attention.self.query.weight"],
        "norm": encoder.bert.named["embeddings.LayerNorm.weight"],
    }
    before = {name: np.array(x) for name, x in watched.items()}
    model.fit(given, tf.constant([[1.0, 0.0]]), verbose=0)
    for name, weight in watched.items():
        step = np.abs(np.array(weight) - before[name]).max()
        # What multiplies vectors is 50 times what is trained.
        expected_step = 50 * 1e-4 if name in ("kernel", "bias") else 1e-4
        of_scores = step * (50 if name in ("kernel", "bias") else 1)
        np.testing.assert_allclose(of_scores, expected_step, rtol=2e-2, err_msg=name)
