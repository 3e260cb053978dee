"""Feature transforms: against NumPy in float64, inside models, saved and served."""

import re

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from sklearn.preprocessing import QuantileTransformer

from tests.helpers import make_lists, widened
from tfr_ext import data, losses, models
from tfr_ext.models import keras_file
from tfr_ext.serving import exporter

LENGTHS = [4, 1, 7, 2, 5]


def raw_lists(seed=0):
    """Features of very different scales; the last is constant, the fourth by query."""
    lists = make_lists(LENGTHS * 3, num_features=5, seed=seed)
    lists.features[:, 1] = np.exp(2 * lists.features[:, 1]) - 3
    lists.features[:, 2] = 1e3 + 10 * lists.features[:, 2]
    lists.features[:, 3] = np.repeat(np.arange(lists.num_lists), lists.lengths)
    lists.features[:, 4] = 0.1
    return lists


def by_list(function):
    def apply(x, splits, train):
        del train
        parts = [x[a:b] for a, b in zip(splits, splits[1:])]
        return np.concatenate([function(part) for part in parts])

    return apply


def min_max(x):
    spread = x.max(axis=0) - x.min(axis=0)
    return (x - x.min(axis=0)) / np.where(spread > 0, spread, np.inf)


def standard(x, splits, train):
    std = train.std(axis=0)
    varies = train.max(axis=0) > train.min(axis=0)
    return (x - train.mean(axis=0)) / np.where(varies, std, 1)


def query_standard(x):
    varies = x.max(axis=0) > x.min(axis=0)
    return (x - x.mean(axis=0)) / np.where(varies, x.std(axis=0), np.inf)


def query_rank(x):
    if len(x) == 1:
        return np.full_like(x, 0.5)
    return (stats.rankdata(x, axis=0) - 1) / (len(x) - 1)


def quantile(x, splits, train):
    transformer = QuantileTransformer(n_quantiles=20).fit(train)
    return transformer.transform(x)


ORACLES = {
    "query_standard": by_list(query_standard),
    "query_rank": by_list(query_rank),
    "quantile:20": quantile,
    "raw": by_list(lambda x: x),
    "log1p": by_list(lambda x: np.sign(x) * np.log(1 + np.abs(x))),
    "query_minmax": by_list(min_max),
    "standard": standard,
    "clip:-1:2": by_list(lambda x: np.clip(x, -1, 2)),
    "clip:-2:2": by_list(lambda x: np.clip(x, -2, 2)),
    "clip::1.5": by_list(lambda x: np.minimum(x, 1.5)),
    "clip:-1e+0:+2": by_list(lambda x: np.clip(x, -1, 2)),
    "clip:0:": by_list(lambda x: np.maximum(x, 0)),
}
CHAINS = [
    *([name] for name in ORACLES),
    ["log1p", "standard", "clip:-1:2"],
    ["clip:-1:2", "standard", "log1p"],
    ["query_minmax", "standard"],
    ["standard", "query_minmax"],
    ["standard", "clip:0:", "standard"],
    ["standard+query_rank"],
    # Of log1p after what divides by a spread: its last digit is that of the place of an
    # item in the batch.
    ["raw+query_standard+clip:0:+quantile:20", "standard", "log1p"],
    ["clip:-1e+0:+2+standard", "quantile:20"],
]


def oracle(forms, lists, train):
    x = lists.features.astype(np.float64)
    of_train = train.features.astype(np.float64)
    for form in forms:
        before = of_train
        parts = [ORACLES[part] for part in re.split(r"\+(?=[a-z])", form)]
        of_train = np.concatenate(
            [part(before, train.row_splits, before) for part in parts], axis=1
        )
        x = np.concatenate(
            [part(x, lists.row_splits, before) for part in parts], axis=1
        )
    return x


def transformed(transforms, batch):
    _, features = transforms(
        {}, {"float_features": tf.constant(batch["float_features"])}, batch["mask"]
    )
    return features["float_features"].numpy()


@pytest.mark.parametrize("forms", CHAINS, ids=",".join)
def test_transforms_are_those_of_numpy_in_their_order(forms):
    train, other = raw_lists(), raw_lists(seed=1)
    transforms = models.feature_transforms(forms, train)
    for lists in (train, other):
        batch, _ = data.padded_batch(lists, np.arange(lists.num_lists))
        out = transformed(transforms, batch)
        assert out.dtype == np.float32 and not out[~batch["mask"]].any()
        np.testing.assert_allclose(
            out[batch["mask"]], oracle(forms, lists, train), rtol=1e-4, atol=2e-4
        )
        wide = widened(batch, 3)  # NaN and junk at padding
        np.testing.assert_allclose(
            transformed(transforms, wide)[:, :-3], out, rtol=1e-5, atol=1e-5
        )
        turned = {name: x[:, ::-1] for name, x in wide.items()}  # Padding first.
        np.testing.assert_allclose(
            transformed(transforms, turned)[:, :2:-1], out, rtol=1e-5, atol=1e-5
        )


def test_the_order_matters():
    train = raw_lists()
    batch, _ = data.padded_batch(train, np.arange(3))
    one, other = (
        transformed(models.feature_transforms(forms, train), batch)
        for forms in (["log1p", "standard"], ["standard", "log1p"])
    )
    assert np.abs(one - other).max() > 0.1


def test_statistics_are_the_same_of_any_pieces():
    train = raw_lists()
    forms = ["query_minmax", "log1p", "standard"]
    whole = models.feature_transforms(forms, train).layers[-1].get_config()
    pieces = (
        train.select(part) for part in ([4, 0, 7], [1], range(8, 15), [2, 3, 5, 6])
    )
    parts = models.feature_transforms(forms, pieces).layers[-1].get_config()
    for name in ("mean", "std"):
        # Not to float64: TensorFlow rounds log1p by where in a vector a number is.
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-7, atol=1e-9)
    x = oracle(forms[:-1], train, train)
    np.testing.assert_allclose(whole["mean"], x.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(whole["std"], x.std(axis=0), rtol=1e-5, atol=1e-9)


def test_statistics_do_not_lose_small_differences_of_large_values():
    lists = make_lists([50_000], num_features=3)
    lists.features[:, 0] = 1e7 + np.arange(50_000) % 5
    lists.features[:, 1] = 1e7
    lists.features[:, 2] = np.where(np.arange(50_000) % 2, 3e38, -3e38)
    config = models.feature_transforms(["standard"], lists).layers[0].get_config()
    np.testing.assert_allclose(config["mean"], [1e7 + 2, 1e7, 0], rtol=1e-12, atol=1e26)
    np.testing.assert_allclose(config["std"][:2], [np.sqrt(2), 0], rtol=1e-12)
    np.testing.assert_allclose(config["std"][2], 3e38, rtol=1e-6)


def test_rounding_is_not_taken_for_a_feature():
    """Values one rounding step apart are only centred, not blown up to -1 and 1."""
    lists = make_lists([40], num_features=1)
    lists.features[:, 0] = 0.1
    lists.features[::2, 0] = np.nextafter(np.float32(0.1), np.float32(1))
    layer = models.feature_transforms(["standard"], lists).layers[0]
    assert layer.get_config()["std"] == [0]


@pytest.mark.parametrize("jit", [False, True])
def test_rounding_is_not_taken_for_a_spread(jit):
    """TensorFlow rounds log1p of equal numbers by where they are; that is no range."""
    values = np.exp(np.random.default_rng(0).normal(size=[40, 1, 25])) + 0.1
    features = tf.constant(np.broadcast_to(values, [40, 9, 25]), tf.float32)
    mask = tf.ones([40, 9], tf.bool)
    layers = models.feature_transforms(["log1p", "query_minmax"], raw_lists()).layers

    @tf.function(jit_compile=jit)
    def both(x):
        for layer in layers:
            x = layer((x, mask))
        return x

    assert not both(features).numpy().any()
    # The difference of two steps up, at 4, is a range.
    x = tf.constant([[[4.0], [np.float32(4 + 2e-6)], [4.0]]])
    out = models.QueryMinMax()((x, tf.ones([1, 3], tf.bool))).numpy().ravel()
    np.testing.assert_array_equal(out, [0, 1, 0])


def test_pieces_that_cannot_be_read_twice_are_told():
    lists = raw_lists()
    forms = ["standard", "clip:0:", "standard"]
    with pytest.raises(ValueError, match="twice"):
        models.feature_transforms(forms, iter([lists]))
    assert models.feature_transforms(forms, [lists]).layers


@pytest.mark.parametrize("forms", CHAINS, ids=",".join)
@pytest.mark.parametrize("jit", [False, True])
def test_any_float32_stays_finite(forms, jit):
    extremes = [3e38, -3e38, 0, 1e-38, -1e-45, 1e30, -7]
    features = np.float32([[[x] * 5 for x in extremes], [[5e-39] * 5] * 7])
    mask = np.ones([2, 7], bool)
    mask[1, 3:] = False
    # Statistics of a training set of small spread, far from these.
    transforms = models.feature_transforms(forms, raw_lists())
    for layer in transforms.layers:
        call = tf.function(layer, jit_compile=jit)
        features = call((tf.constant(features), tf.constant(mask))).numpy()
        assert np.isfinite(features).all(), layer.name
        assert (features[~mask] == 0).all()


def test_rows_of_nothing_but_padding_stay_zero():
    transforms = models.feature_transforms(["query_minmax", "standard"], raw_lists())
    batch = {
        "float_features": np.full([2, 3, 5], np.nan, np.float32),
        "mask": np.zeros([2, 3], bool),
    }
    assert not transformed(transforms, batch).any()


FORMS = ["log1p", "query_minmax", "standard+query_rank+quantile:20", "clip:-2:2"]


def build(train, **kwargs):
    tf.keras.utils.set_random_seed(0)
    transforms = models.feature_transforms(FORMS, train)
    scorer = models.MLPScorer([6], **kwargs)
    return models.model_builder(5, scorer, transforms).build()


@pytest.mark.first_case
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_a_model_trains_on_raw_features_as_another_on_transformed_ones(compact, jit):
    if compact and jit:
        pytest.skip("XLA needs compact=False")
    train = raw_lists()
    features, labels = data.padded_batch(train, np.arange(train.num_lists))
    wide = widened(features, 2)
    wide_labels = np.pad(labels, [[0, 0], [0, 2]], constant_values=-1)
    model = build(train, compact=compact)
    tf.keras.utils.set_random_seed(0)
    given, transformed = dict(features), oracle(FORMS, train, train)
    width = transformed.shape[1]
    plain = models.model_builder(width, models.MLPScorer([6], compact=compact)).build()
    names = [getattr(w, "path", w.name) for w in model.weights]  # In Keras 3, the path.
    kept = ["transform" not in name for name in names]
    plain.set_weights([w.numpy() for w, k in zip(model.weights, kept) if k])
    shape = (*features["mask"].shape, width)
    given["float_features"] = np.zeros(shape, np.float32)
    given["float_features"][features["mask"]] = transformed
    for m in (model, plain):
        m.compile("adam", losses.ListNetLoss(), jit_compile=jit)
    for _ in range(3):
        model.train_on_batch(wide, wide_labels)
        plain.train_on_batch(given, labels)
    scores, expected = (
        m.predict(x, verbose=0)[x["mask"]]
        for m, x in ((model, features), (plain, given))
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        model.predict(wide, verbose=0)[wide["mask"]], scores, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_transforms_in_float32(policy):
    train = raw_lists()
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        model = build(train)
        alone = models.Standard([0.0], [1.0])
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert alone.compute_dtype == "float32"
    transformed, _ = tf.nest.flatten(model.get_layer("items").input)
    inner = tf.keras.Model(model.input, transformed)
    features, _ = data.padded_batch(train, np.arange(train.num_lists))
    out = inner(features).numpy()
    assert out.dtype == np.float32
    np.testing.assert_allclose(
        out[features["mask"]], oracle(FORMS, train, train), rtol=1e-4, atol=2e-4
    )


@pytest.mark.two_graphs
def test_statistics_survive_saving_exporting_and_checkpoints(tmp_path):
    train, other = raw_lists(), raw_lists(seed=3)
    features, labels = data.padded_batch(train, np.arange(train.num_lists))
    model = build(train)
    model.compile("adam", losses.ListNetLoss())
    model.fit(features, labels, verbose=0)
    scores = data.score_lists(model, other, 4)

    model.save(str(tmp_path / "model.keras"))
    loaded = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(data.score_lists(loaded, other, 4), scores)

    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
    again = build(other)  # Other statistics, until the checkpoint is read.
    tf.train.Checkpoint(model=again).read(path).expect_partial()
    np.testing.assert_array_equal(data.score_lists(again, other, 4), scores)

    exported = exporter.export_ranker(model, str(tmp_path / "export"))
    served = exporter.ExportedScorer(exported)
    np.testing.assert_allclose(served.scores(other, 4), scores, rtol=1e-5, atol=1e-6)
    signatures = tf.saved_model.load(exported).signatures
    one = other.select([2])
    alone = signatures["serving_default"](tf.constant(one.features[np.newaxis]))
    request = tf.constant([elwc(one.features)])
    expected = data.score_lists(model, one, 1)
    for answer in (alone, signatures["elwc"](request)):
        np.testing.assert_allclose(answer["scores"][0], expected, rtol=1e-5, atol=1e-6)


def elwc(features):
    from tfr_ext.data.elwc.message import ExampleListWithContext

    message = ExampleListWithContext()
    for row in features:
        example = message.examples.add()
        example.features.feature["float_features"].float_list.value.extend(row.tolist())
    return message.SerializeToString()


def test_two_replicas_have_the_same_statistics():
    cpus = tf.config.list_logical_devices("CPU")
    strategy = tf.distribute.MirroredStrategy([cpus[0].name])
    train = raw_lists()
    with strategy.scope():
        model = build(train)
    features, _ = data.padded_batch(train, np.arange(4))
    np.testing.assert_allclose(
        model(features), build(train)(features), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("log1", ["'log1'", "did you mean 'log1p'", "query_minmax", "clip:LO:HI"]),
        ("querry_minmax", ["did you mean 'query_minmax'"]),
        ("minmax", ["query_minmax"]),
        ("standard:2", ["'standard:2'", "standard"]),
        ("log1p:2", ["'log1p:2'"]),
        ("clip", ["'clip'", "clip:LO:HI", "clip::10"]),
        ("clip:1", ["clip:LO:HI"]),
        ("clip::", ["clip:LO:HI"]),
        ("clip:1:2:3", ["clip:LO:HI"]),
        ("clip:x:2", ["'x'"]),
        ("clip:2:1", ["must not be above", "2.0 and 1.0"]),
        ("clip:nan:1", ["`low`", "nan"]),
        ("clip:0:1e39", ["`high`", "1e+39"]),
        ("query_ranks", ["did you mean 'query_rank'"]),
        ("standard+", ["'standard+'", "did you mean 'standard'"]),
        ("raw+querry_rank", ["'querry_rank'", "did you mean 'query_rank'"]),
        ("+raw", ["''"]),
        ("quantile:1", ["'quantile:1'", "from 2 to 10,000", "quantile:1000"]),
        ("quantile:", ["quantile:N"]),
        ("standard+quantile:2:3", ["'quantile:2:3'", "quantile:N"]),
        ("", ["''"]),
    ],
)
def test_wrong_forms_are_told_with_the_near_ones(form, told):
    for check in (
        lambda: models.check_feature_transforms(["log1p", form]),
        lambda: models.feature_transforms(["log1p", form], []),
    ):
        with pytest.raises(ValueError) as error:
            check()
        for part in told:
            assert part in str(error.value)


def test_statistics_of_another_width_are_told():
    transforms = models.feature_transforms(["standard"], raw_lists())
    with pytest.raises(ValueError, match="have 5 features.*Received: 4"):
        models.model_builder(4, models.MLPScorer([2]), transforms).build()
    with pytest.raises(ValueError, match="one number per feature"):
        models.Standard([0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="`std`"):
        models.Standard([0.0], [-1.0])
    with pytest.raises(ValueError, match="at least 2. Received: 1."):
        models.Quantile([[0.0]])
    with pytest.raises(ValueError, match="must not decrease"):
        models.Quantile([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="at least one transform"):
        models.Concatenated([])
    with pytest.raises(ValueError, match="no training items"):
        models.feature_transforms(["standard"], [])
