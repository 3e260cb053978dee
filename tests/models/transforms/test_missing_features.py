"""Missing features: filled inside the model, and left out of all statistics."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists, widened
from tfr_ext import data, models
from tfr_ext.models import keras_file
from tfr_ext.serving import exporter, signatures

FORMS = [
    ["log1p", "standard+query_rank+query_standard", "clip:-2:2"],
    ["query_minmax+raw+quantile:5", "standard"],
]


def lists_with_gaps(seed=0, scale=1.0):
    """Feature 0 always known, 1 and 2 missing at times, 3 never known."""
    lists = make_lists([4, 1, 6, 3, 1] * 4, num_features=4, seed=seed)
    lists.features[:] *= np.float32(scale)
    rng = np.random.default_rng(seed)
    lists.features[:, 1:3][rng.random([lists.num_items, 2]) < 0.3] = np.nan
    lists.features[:5, 1:3] = np.nan  # All of a list, and a list of one.
    lists.features[:, 3] = np.nan
    return lists


def transformed(transforms, batch, jit=False):
    @tf.function(jit_compile=jit)
    def call(x, mask):
        for layer in transforms.layers:
            x = layer((x, mask))
        return x

    return call(tf.constant(batch["float_features"]), batch["mask"]).numpy()


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_means_take_their_places(missing, jit):
    lists = lists_with_gaps()
    transforms = models.feature_transforms([], lists, missing)
    batch, _ = data.padded_batch(lists, np.arange(lists.num_lists))
    out = transformed(transforms, batch, jit)[batch["mask"]]
    gaps = np.isnan(lists.features)
    mean = np.where(gaps, 0, lists.features).sum(0) / np.maximum(1, (~gaps).sum(0))
    expected = np.where(gaps, mean, lists.features)
    if missing == "indicator":
        expected = np.concatenate([expected, gaps[:, 1:]], axis=1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_statistics_leave_out_missing_features_through_all_transforms(missing):
    lists = lists_with_gaps()
    (_, _, layer) = models.feature_transforms(
        ["raw+clip:-1:1", "standard"], lists, missing
    ).layers
    config = layer.get_config()
    each = [lists.features[:, :3], np.clip(lists.features[:, :3], -1, 1)]
    places = [slice(0, 3), slice(4, 7)] if missing == "mean" else None
    if missing == "indicator":  # Three features more in each half.
        places = [slice(0, 3), slice(7, 10)]
        share = np.isnan(lists.features[:, 1]).mean()
        np.testing.assert_allclose(config["mean"][4], share, rtol=1e-6)
    for x, place in zip(each, places):
        np.testing.assert_allclose(config["mean"][place], np.nanmean(x, 0), rtol=1e-5)
        np.testing.assert_allclose(config["std"][place], np.nanstd(x, 0), rtol=1e-5)
    assert config["mean"][3] == config["std"][3] == 0


@pytest.mark.parametrize(
    ("forms", "scale", "jit"),
    [
        # Any two of them go together in half of the cases.
        pytest.param(
            *(FORMS[form], scale, jit),
            marks=[pytest.mark.grid] * ((form + (scale > 1) + jit) % 2),
        )
        for form, scale, jit in itertools.product([0, 1], [1.0, 1e30], [False, True])
    ],
)
def test_padding_and_the_order_of_items_change_nothing(forms, jit, scale):
    lists = lists_with_gaps(scale=scale)
    transforms = models.feature_transforms(forms, lists, "indicator")
    batch, _ = data.padded_batch(lists, np.arange(lists.num_lists))
    out = transformed(transforms, batch, jit)
    assert np.isfinite(out).all() and not out[~batch["mask"]].any()
    wide = widened(batch, 2)
    for name, turned in (("as they are", wide), ("turned", None)):
        turned = turned or {key: x[:, ::-1] for key, x in wide.items()}
        found = transformed(transforms, turned, jit)
        found = found if turned is wide else found[:, ::-1]
        np.testing.assert_allclose(
            found[:, : out.shape[1]], out, rtol=1e-4, atol=1e-4, err_msg=name
        )


def build(missing="indicator"):
    lists = lists_with_gaps()
    transforms = models.feature_transforms(FORMS[0], lists, missing)
    return models.model_builder(4, models.MLPScorer([3]), transforms).build(), lists


@pytest.mark.two_graphs
def test_saved_and_exported_models_take_nan_and_refuse_infinity(tmp_path):
    model, lists = build()
    scores = data.score_lists(model, lists, 4)
    assert np.isfinite(scores).all()
    model.save(str(tmp_path / "model.keras"))
    loaded = keras_file.load(str(tmp_path / "model.keras"))
    np.testing.assert_array_equal(data.score_lists(loaded, lists, 4), scores)
    scorer = exporter.ExportedScorer(exporter.export_ranker(model, str(tmp_path)))
    assert scorer.takes_missing
    np.testing.assert_allclose(scorer.scores(lists, 4), scores, rtol=1e-5, atol=1e-6)
    lists.features[2, 0] = np.inf
    with pytest.raises(tf.errors.InvalidArgumentError, match="infinite feature"):
        scorer.scores(lists, 4)


def test_an_export_takes_nan_only_if_all_its_models_do():
    model, lists = build("mean")
    plain = models.model_builder(4, models.MLPScorer([3])).build()
    batch, _ = data.padded_batch(lists, np.arange(3))
    exported = signatures.signatures(plain)["masked"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN feature"):
        exported(**{key: tf.constant(x) for key, x in batch.items()})
    both = [
        models.combined_model(several)
        for several in ([model, build()[0]], [model, plain])
    ]
    takes = [signatures.fills_missing(one) for one in (model, plain, *both)]
    assert takes == [True, False, True, False]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([float("nan")],), "`mean`"),
        (([0.0, 1.0], [1, 0]), "increasing numbers of features, from 0 to 1"),
        (([0.0, 1.0], [2]), "from 0 to 1"),
    ],
)
def test_wrong_arguments_are_told(arguments, told):
    with pytest.raises(ValueError, match=told):
        models.FillMissing(*arguments)
    with pytest.raises(ValueError, match="`missing`"):
        models.feature_transforms([], make_lists([2]), "median")
