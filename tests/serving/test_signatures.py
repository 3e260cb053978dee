"""The signatures for ranking, for single items, and TensorFlow Ranking's own."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import elwc_files
from tests.helpers import assert_same_scores, make_lists, needs_tfr
from tfr_ext import data, models
from tfr_ext.data.elwc.message import ExampleListWithContext
from tfr_ext.evaluation import trec
from tfr_ext.serving import exporter, signatures

pytestmark = pytest.mark.stack_b

PREDICT = "tensorflow/serving/predict"
REGRESS = "tensorflow/serving/regress"
NAMED = data.ElwcFeatures(
    (data.Feature("a"), data.Feature("b", width=2, is_integer=True)),
    (data.Feature("c"),),
)


class Given:
    """A model that scores an item by its first feature."""

    input = {"float_features": tf.TensorSpec([None, None, 1])}
    variables = ()
    layers = ()

    def __call__(self, inputs, training=False):
        return inputs["float_features"][..., 0]


def given_order(scores, mask, topn):
    found = signatures.signatures(Given())["rank"](
        float_features=tf.constant(scores, tf.float32)[..., tf.newaxis],
        mask=tf.constant(mask),
        topn=tf.constant(topn, tf.int32),
    )
    np.testing.assert_array_equal(
        found["scores"].numpy(),
        np.where(mask, np.float32(scores), np.finfo(np.float32).min),
    )
    return found["order"].numpy()


def expected_order(scores, mask, topn):
    """The order by plain loops."""
    order = np.full(np.shape(scores), -1)
    for q, row in enumerate(scores):
        real = [i for i in range(len(row)) if mask[q][i]]
        best = sorted(real, key=lambda i: (-row[i], i))[: topn[q]]
        order[q, : len(best)] = best
    return order


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_plain_loops(seed):
    rng = np.random.default_rng(seed)
    batch, size = rng.integers(1, 6), rng.integers(0, 9)
    # Few values, so that many tie; the extremes are those of padding and beyond.
    values = [-np.inf, np.finfo(np.float32).min, -1.0, -0.0, 0.0, 2.0, np.inf]
    scores = rng.choice(values, [batch, size])
    mask = rng.random([batch, size]) < 0.7
    topn = rng.integers(1, size + 3, batch)
    found = given_order(scores, mask, topn)
    np.testing.assert_array_equal(found, expected_order(scores, mask, topn))


def test_the_order_is_that_of_a_run_file():
    scores = np.round(np.random.default_rng(0).normal(size=[1, 30]), 1)
    found = given_order(scores, np.ones([1, 30], bool), [30])
    np.testing.assert_array_equal(found[0], trec.best_first(scores[0]))


@pytest.mark.parametrize(
    ("topn", "told"),
    [
        ([0, 2], "topn must be at least 1"),
        ([2, -1], "topn must be at least 1"),
        ([2], r"topn must be \[batch\]"),
        ([2, 2, 2], r"topn must be \[batch\]"),
    ],
)
def test_a_wrong_topn_is_an_error(topn, told):
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        given_order(np.zeros([2, 3]), np.ones([2, 3], bool), topn)


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    """An export whose protos have names, an integer and a context."""
    model = models.model_builder(4, models.MLPScorer([8])).build()
    directory = str(tmp_path_factory.mktemp("export"))
    return exporter.export_ranker(model, directory, elwc_features=NAMED)


def protos_of(features):
    """A list as an ELWC proto, and its items with the features of the context."""
    items = [
        {"a": [float(x[0])], "b": [int(x[1]), int(x[2])], "c": [float(x[3])]}
        for x in features
    ]
    of_items = [{name: item[name] for name in "ab"} for item in items]
    whole = elwc_files.elwc(of_items, c=[float(features[0, 3])])
    single = elwc_files.elwc(items).examples
    return whole.SerializeToString(), [one.SerializeToString() for one in single]


@pytest.mark.two_graphs
def test_protos_give_the_scores_of_their_features(version):
    rng = np.random.default_rng(0)
    features = rng.integers(0, 9, [2, 3, 4]).astype(np.float32)
    features[..., 3] = features[:, :1, 3]
    loaded = tf.saved_model.load(version).signatures
    raw = loaded["serving_default"](tf.constant(features))["scores"].numpy()
    assert len(np.unique(raw)) > 3
    both = [protos_of(one) for one in features]
    lists = tf.constant([whole for whole, _ in both])
    for name, key, result in (
        (PREDICT, "inputs", "outputs"),
        ("elwc", "examples", "scores"),
    ):
        scores = loaded[name](**{key: lists})[result].numpy()
        assert_same_scores(scores, raw)
    items = tf.constant([item for _, several in both for item in several])
    alone = loaded[REGRESS](inputs=items)["outputs"].numpy()
    assert alone.shape == (6,)
    np.testing.assert_allclose(alone, raw.ravel(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, -1.5, np.nan])
def test_absent_features_are_missing_ones(missing):
    """As numbers, or as NaN to a model that fills it in."""
    lists = make_lists([6], num_features=4)
    lists.features[0] = np.nan
    fills = models.feature_transforms([], lists, "mean") if np.isnan(missing) else None
    model = models.model_builder(4, models.MLPScorer([8]), fills).build()
    named = dataclasses.replace(NAMED, missing_value=missing)
    functions = signatures.signatures(model, named)
    for name, columns in (("a", [0]), ("b", [1, 2]), ("c", [3])):
        features = np.ones([1, 2, 4], np.float32)
        whole, items = protos_of(features[0])
        whole = ExampleListWithContext.FromString(whole)
        for example in whole.examples:
            example.features.feature.pop(name, None)
        whole.context.features.feature.pop(name, None)
        item = tf.train.Example.FromString(items[0])
        del item.features.feature[name]
        features[..., columns] = missing
        raw = functions["serving_default"](float_features=tf.constant(features))[
            "scores"
        ].numpy()
        serialised = tf.constant([whole.SerializeToString()])
        assert_same_scores(
            functions["elwc"](examples=serialised)["scores"].numpy(), raw
        )
        serialised = tf.constant([item.SerializeToString()])
        assert_same_scores(
            functions[REGRESS](serialised)["outputs"].numpy(), raw[0, :1]
        )


def test_methods_are_those_that_a_server_expects(version):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], version)
    methods = {
        name: definition.method_name
        for name, definition in loaded.signature_def.items()
        if not name.startswith("__")
    }
    assert methods.pop(REGRESS) == REGRESS
    assert set(methods) == {"serving_default", "masked", "rank", "elwc", PREDICT}
    assert set(methods.values()) == {PREDICT}


@needs_tfr
def test_the_names_are_those_of_tensorflow_ranking(version):
    import tensorflow_ranking as tfr

    model = models.model_builder(4, models.MLPScorer([8])).build()
    theirs = tfr.keras.saved_model.Signatures(model, {}, {}, "mask")
    ours = tf.saved_model.load(version).signatures
    for name, function in (
        (PREDICT, theirs.predict_tf_function()),
        (REGRESS, theirs.regress_tf_function()),
    ):
        (spec,) = function.input_signature
        assert list(ours[name].structured_input_signature[1]) == [spec.name]
    normalized = theirs.normalize_outputs("outputs", tf.zeros([1]))
    assert {*normalized} == {*ours[PREDICT].structured_outputs}


class Centred(tf.keras.layers.Layer):
    """What a user may write: the difference from the mean of the list."""

    def call(self, inputs):
        return inputs - tf.reduce_mean(inputs, axis=1, keepdims=True)


def users_model(across):
    features = tf.keras.Input([None, 3], name="float_features")
    mask = tf.keras.Input([None], name="mask", dtype="bool")
    scores = tf.keras.layers.Dense(1)(features)[..., 0]
    if across:
        scores = Centred()(scores)
    return tf.keras.Model({"float_features": features, "mask": mask}, scores)


@pytest.mark.parametrize(
    "forms", [["log1p", "raw+standard+quantile:3", "clip:-1:1"], []]
)
def test_item_wise_models_have_a_signature_for_items(forms):
    transforms = models.feature_transforms(forms, make_lists([6])) if forms else None
    model = models.model_builder(3, models.MLPScorer([8]), transforms).build()
    assert REGRESS in signatures.signatures(model)


@pytest.mark.first_case
@pytest.mark.parametrize("forms", [["query_minmax"], ["standard+query_rank", "log1p"]])
def test_models_across_lists_have_none_and_say_so(forms, tmp_path, capsys):
    transforms = models.feature_transforms(forms, make_lists([6]))
    model = models.model_builder(3, models.MLPScorer([8]), transforms).build()
    version = exporter.export_ranker([model, model], str(tmp_path))
    assert REGRESS not in tf.saved_model.load(version).signatures
    assert "no signature for single items" in capsys.readouterr().out


@pytest.mark.first_case
@pytest.mark.parametrize("width", [1, 2])
def test_names_that_context_and_items_share_leave_no_signature_for_items(
    width, tmp_path, capsys
):
    """In one proto, there would be one value for both."""
    features = data.ElwcFeatures(
        (data.Feature("age"), data.Feature("b")),
        (data.Feature("age", width=width),),
    )
    model = models.model_builder(2 + width, models.MLPScorer([8])).build()
    version = exporter.export_ranker(model, str(tmp_path), elwc_features=features)
    assert REGRESS not in tf.saved_model.load(version).signatures
    assert "share the names ['age']" in capsys.readouterr().out


@pytest.mark.parametrize("across", [False, True])
def test_models_of_users_are_tried(across):
    assert signatures.looks_across_lists(users_model(across)) == across
