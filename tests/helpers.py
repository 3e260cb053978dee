"""What tests of several folders make and compare: lists, batches, gradients."""

import dataclasses
import functools
import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext import _stack, data, evaluation
from tfr_ext.core import which_keras
from tfr_ext.training import LossConfig, TrainingConfig, fitter

STACK_B = not tf.__version__.startswith("2.15")
KERAS_3 = not which_keras.IS_KERAS_2
loads_saved_models = pytest.mark.skipif(KERAS_3, reason="Keras 3 loads no SavedModel")
needs_tfr = pytest.mark.skipif(
    _stack.tfr_problem() is not None, reason="TensorFlow Ranking cannot be imported"
)


def need(*packages):
    """Skips the file or, in an `__init__`, the folder, where a package is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}", allow_module_level=True)


class _Absent:
    """Skips the test that asks TensorFlow Ranking for something."""

    @property
    def keras(self):
        pytest.skip("TensorFlow Ranking cannot be imported")


# TensorFlow Ranking, where there is one.
tfr = (
    _Absent() if _stack.tfr_problem() else importlib.import_module("tensorflow_ranking")
)


def make_lists(lengths, labels=None, num_features=3, seed=0, doc_ids=None):
    """Lists of given lengths with random features and, unless given, labels 0 to 3."""
    rng = np.random.default_rng(seed)
    items = sum(lengths)
    if labels is None:
        labels = rng.integers(0, 4, items)
    return data.RankingLists(
        features=rng.normal(size=[items, num_features]).astype(np.float32),
        labels=np.asarray(labels, np.float32),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=[f"q{i}" for i in range(len(lengths))],
        doc_ids=doc_ids,
    )


def with_distributions(lists, num_grades=3, seed=0):
    """The same lists with random distributions over grades as labels."""
    rng = np.random.default_rng(seed)
    drawn = rng.dirichlet(np.ones(num_grades), lists.num_items).astype(np.float32)
    return dataclasses.replace(lists, label_distributions=drawn)


def assert_same_lists(found, expected):
    """Asserts that two `RankingLists` are equal in every field, types included."""
    for field in dataclasses.fields(expected):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
            assert ours.dtype == theirs.dtype, field.name
        else:
            assert ours == theirs, field.name


# Two graphs, or one graph on batches of two shapes, give the same numbers up to some
# roundings of the largest: how many depends on the processor.
TWO_GRAPHS = 64 * float(np.finfo(np.float32).eps)


def assert_same_scores(found, expected):
    """Asserts that the scores of two graphs are equal, up to `TWO_GRAPHS`."""
    largest = np.abs(np.asarray(expected)).max(initial=0)
    np.testing.assert_allclose(
        found, expected, rtol=TWO_GRAPHS, atol=TWO_GRAPHS * largest
    )


def metric_ranges(lists, scores, metrics, convention=evaluation.Convention()):  # noqa: B008
    """The least and the highest value of each metric and query, `[2, num_lists]`.

    Items whose scores nearly tie may stand in another order in another graph: those
    with the higher labels first, or last.
    """
    scores = np.asarray(scores, np.float64)
    nearly = 2 * TWO_GRAPHS * np.abs(scores).max(initial=0)
    ends = []
    for sign in (1, -1):
        ranks = np.empty(lists.num_items)
        for start, end in zip(lists.row_splits, lists.row_splits[1:]):
            own, labels = scores[start:end], lists.labels[start:end]
            order = np.argsort(-own, kind="stable")
            tiers = np.empty(len(own))
            tiers[order] = np.cumsum([0, *(np.diff(own[order]) < -nearly)])[: len(own)]
            ranks[start + np.lexsort([sign * labels, tiers])] = np.arange(len(own))
        ends.append(evaluation.per_query(lists, -ranks, metrics, convention))
    return {name: np.sort([values[name] for values in ends], 0) for name in metrics}


def assert_within(values, ranges):
    """Asserts that metrics, per query or their means, are in `metric_ranges`."""
    assert values.keys() == ranges.keys()
    for name, value in values.items():
        ends = ranges[name]
        if np.ndim(value) == 0:
            ends = np.nanmean(ends, axis=1)
        np.testing.assert_array_equal(np.isnan(value), np.isnan(ends[0]), name)
        np.testing.assert_allclose(value, np.clip(value, *ends), atol=1e-6, rtol=0)


def scores_of_run(path, lists):
    """The scores that a run has, in the order of the items."""
    documents = evaluation.read_run(str(path), lists).documents
    queries = np.repeat(lists.query_ids, lists.lengths)
    names = evaluation.document_names(lists)
    return [documents[query][name] for query, name in zip(queries, names)]


def widened(features, extra):
    """The features of a padded batch with more padding, full of junk."""
    wide = np.pad(
        features["float_features"], [[0, 0], [0, extra], [0, 0]], constant_values=7e5
    )
    wide[:, :-extra][~features["mask"]] = np.nan
    return {
        "float_features": wide,
        "mask": np.pad(features["mask"], [[0, 0], [0, extra]]),
    }


def random_lists(seed, sizes=(1, 2, 5, 9), ties=False):
    """Yields scores and labels 0 to 3 of lists of given sizes."""
    rng = np.random.default_rng(seed)
    for size in sizes:
        scores = rng.normal(size=size) * 2
        if ties:
            scores = rng.integers(-1, 2, size) * 0.75
        labels = rng.integers(0, 4, size).astype(float)
        yield scores.tolist(), labels.tolist()


def padded(lists, dtype=tf.float64, seed=0, spare=3, shuffled=False):
    """Puts lists in one batch, with padding before, between and behind their items.

    Args:
        lists: pairs of scores and labels.
        dtype: the type of the tensors.
        seed: of the places of the items, and of the scores at padding.
        spare: how much wider the batch is than the longest list.
        shuffled: the items of a list stand in a random order, not in theirs.

    Returns:
        Labels, scores, and the columns of each list's items.
    """
    rng = np.random.default_rng(seed)
    width = max(len(scores) for scores, _ in lists) + spare
    labels = np.full([len(lists), width], -1.0)
    batch_scores = rng.normal(size=labels.shape) * 100
    places = []
    for b, (scores, list_labels) in enumerate(lists):
        columns = rng.choice(width, len(scores), replace=False)
        places.append(columns if shuffled else np.sort(columns))
        labels[b, places[b]], batch_scores[b, places[b]] = list_labels, scores
    return tf.constant(labels, dtype), tf.constant(batch_scores, dtype), places


def scattered(lists, dtype=tf.float64):
    """`padded` of pairs of labels and scores, each list's items in a random order."""
    return padded([(scores, labels) for labels, scores in lists], dtype, shuffled=True)


def gradient_step(loss, labels, scores, *weights):
    """The value of a loss, and its gradient in the scores, as tensors."""
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = loss(labels, scores, *weights)
    return value, tape.gradient(value, scores)


def value_and_gradient(loss, labels, scores, *weights):
    """The value of a loss, and its gradient in the scores, as arrays."""
    scores = tf.convert_to_tensor(scores)
    value, slopes = gradient_step(loss, labels, scores, *weights)
    return value.numpy(), slopes.numpy()


def compiled(loss, *specs, jit=False):
    """`gradient_step` of a loss, as a graph of inputs of the given `tf.TensorSpec`."""
    step = functools.partial(gradient_step, loss)
    return tf.function(step, input_signature=specs or None, jit_compile=jit)


def assert_no_items_give_0(loss, static=False, taken=lambda *inputs: inputs):
    """Lists of no items, a batch of no lists, and both: eager, and in a graph.

    Args:
        loss: the loss.
        static: whether the graph knows the shapes.
        taken: gives labels and scores `[batch, list]` as the loss takes them.
    """

    def step(labels, scores):
        return gradient_step(lambda y, s: loss(*taken(y, s)), labels, scores)

    unknown = tf.function(step, input_signature=[tf.TensorSpec([None, None])] * 2)
    for shape in ([2, 0], [0, 5], [0, 0]):
        nothing = tf.zeros(shape)
        for function in (step, tf.function(step) if static else unknown):
            value, slopes = function(nothing, nothing)
            assert not value.numpy().any() and slopes.shape == nothing.shape, shape


def in_a_graph_of_tensorflow_1(loss, *inputs, known=False):
    """`gradient_step` of a loss as an Estimator runs it, in a session.

    There `==` between tensors compares the objects instead of their values.

    Args:
        loss: the loss.
        *inputs: labels, scores and, if any, weights.
        known: whether the graph knows their shapes.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fed = [
            tf.compat.v1.placeholder(x.dtype, x.shape if known else [None] * x.ndim)
            for x in inputs
        ]
        value = loss(*fed)
        results = value, tf.gradients(value, fed[1])[0]
        return session.run(results, dict(zip(fed, inputs)))


def small_fitter(model, datasets, directory, num_epochs, loss=None, **given):
    """A fitter of a small training in a directory; `given` are its other arguments."""
    config = TrainingConfig(
        model_dir=str(directory),
        num_epochs=num_epochs,
        learning_rate=0.01,
        loss=loss or LossConfig("smoothi_loss"),
        monitor=given.pop("monitor", "ndcg@10"),  # As papers write it.
    )
    return fitter.Fitter(model, datasets, config, **given)
