"""Weights of items travel in batches, and Keras brings them to the loss."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.elwc_files import protos, write
from tests.helpers import make_lists, with_distributions
from tests.losses import cases
from tfr_ext import data
from tfr_ext.data import BatchedLists, padded_batch
from tfr_ext.data.batches import streamed_batches, streams

LENGTHS = [4, 1, 6, 3, 2, 5, 3]
KERNEL = np.float32([[0.25], [0.1], [-0.2]])
LISTS = dataclasses.replace(
    make_lists(LENGTHS),
    weights=np.random.default_rng(3).uniform(0, 4, sum(LENGTHS)).astype(np.float32),
)


def unpadded(lists, query, values):
    return values[lists.row_splits[query] : lists.row_splits[query + 1]]


def of_batch(lists, chosen, values, padding):
    """Values of the items of some lists, padded by hand."""
    rows = [unpadded(lists, query, values).tolist() for query in chosen]
    width = max(map(len, rows))
    return np.float32([row + [padding] * (width - len(row)) for row in rows])


def test_a_batch_has_the_weights_of_its_items_and_0_at_padding():
    features, labels, weights = padded_batch(LISTS, np.array([1, 2, 0]))
    expected = of_batch(LISTS, [1, 2, 0], LISTS.weights, 0)
    np.testing.assert_array_equal(weights, expected)
    assert weights.dtype == np.float32 and labels.shape == weights.shape
    graded = padded_batch(with_distributions(LISTS), np.array([1, 2, 0]), True)
    np.testing.assert_array_equal(graded[2], expected)


def test_lists_without_weights_give_pairs():
    lists = dataclasses.replace(LISTS, weights=None)
    assert len(padded_batch(lists, np.arange(2))) == 2
    assert len(next(iter(BatchedLists(lists, 2).dataset()))) == 2


def test_every_epoch_has_the_weights_of_the_items():
    """The first feature of an item tells which it is."""
    of_item = dict(zip(LISTS.features[:, 0].tolist(), LISTS.weights.tolist()))
    sampled = data.BinomialLabels(max_label=3.0, per_epoch=True)
    batches = BatchedLists(LISTS, 3, seed=1, label_transform=sampled).dataset()
    for _ in range(2):
        seen = 0
        for features, labels, weights in batches.as_numpy_iterator():
            mask = features["mask"]
            names = features["float_features"][mask][:, 0].tolist()
            assert weights[mask].tolist() == [of_item[name] for name in names]
            assert not weights[~mask].any() and (labels[~mask] == -1).all()
            seen += len(names)
        assert seen == LISTS.num_items


def test_a_stream_of_one_run_has_the_batches_of_lists_in_memory(tmp_path):
    path = write(tmp_path / "a", protos(LISTS))
    schema = data.ElwcSchema(weight="weight")
    lists = data.StreamedLists([path], schema=schema)
    assert lists.has_weights and not data.StreamedLists([path]).has_weights
    for options in ({}, {"num_grades": 4}):
        streamed = data.StreamedBatches(lists, 3, 5, **options).dataset()
        memory = BatchedLists(LISTS, 3, 5, **options).dataset()
        for mine, theirs in zip(streamed, memory):
            assert len(mine) == 3
            np.testing.assert_array_equal(mine[1], theirs[1])
            np.testing.assert_array_equal(mine[2], theirs[2])


def test_a_stream_of_many_runs_has_the_weights_of_the_items(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_LISTS_PER_PIECE", 2)
    monkeypatch.setattr(streamed_batches, "_RUN_BATCHES", 1)
    of_item = dict(zip(LISTS.features[:, 0].tolist(), LISTS.weights.tolist()))
    files = [
        write(tmp_path / f"s-{k}", protos(LISTS.select(part)))
        for k, part in enumerate(np.array_split(np.arange(LISTS.num_lists), 2))
    ]

    def cut(piece, number):
        return data.truncate(piece, 4, seed=number)[0]

    schema = data.ElwcSchema(weight="weight")
    lists = data.StreamedLists(files, schema=schema, transform=cut)
    seen = 0
    for features, _, weights in data.StreamedBatches(lists, 3, 0).dataset():
        mask = features["mask"].numpy()
        names = features["float_features"].numpy()[mask][:, 0].tolist()
        assert weights.numpy()[mask].tolist() == [of_item[name] for name in names]
        assert not weights.numpy()[~mask].any()
        seen += len(names)
    assert seen == lists.num_items == np.minimum(LENGTHS, 4).sum()


def ranker():
    """A model of one layer, whose scores at padding are those of zeros."""
    inputs = {
        "float_features": tf.keras.Input(
            [None, LISTS.num_features], name="float_features"
        ),
        "mask": tf.keras.Input([None], dtype=tf.bool, name="mask"),
    }
    # Small enough for ListAP, whose scores are from -1 to 1.
    scores = tf.keras.layers.Dense(1, kernel_initializer="zeros")
    scores.build([None, None, LISTS.num_features])
    scores.set_weights([KERNEL, np.zeros(1)])
    return tf.keras.Model(inputs, scores(inputs["float_features"])[..., 0])


@pytest.mark.parametrize("case", cases.ONE_EACH, ids=str)
def test_the_history_of_fit_is_the_mean_of_direct_calls(case):
    batches = BatchedLists(LISTS, 3)
    scores = (LISTS.features @ KERNEL)[:, 0]
    total = 0.0
    for chosen in batches.order(0):
        labels = of_batch(LISTS, chosen, LISTS.labels, -1)
        weights = of_batch(LISTS, chosen, LISTS.weights, 0)
        value = case.build()(labels, of_batch(LISTS, chosen, scores, 0), weights)
        total += float(value) * len(chosen)
    model = ranker()
    model.compile(
        tf.keras.optimizers.SGD(0.0),
        case.build(),
        weighted_metrics=[],
        run_eagerly=True,
    )
    history = model.fit(
        batches.dataset(), validation_data=batches.dataset(), verbose=0
    ).history
    expected = total / LISTS.num_lists
    np.testing.assert_allclose(history["loss"], expected, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(history["val_loss"], expected, rtol=2e-5, atol=1e-7)
    # The weights do make a difference.
    same = dataclasses.replace(LISTS, weights=None)
    plain = model.evaluate(BatchedLists(same, 3).dataset(), verbose=0)
    assert abs(plain - expected) > 1e-4 * abs(expected)
