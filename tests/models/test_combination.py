"""Several models as one: what it scores, and that it can be saved and exported."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.combined_scores import OF_A_LIST, by_scipy
from tests.helpers import make_lists, widened
from tfr_ext import data, models
from tfr_ext.models import keras_file
from tfr_ext.models.combination import parts_of
from tfr_ext.serving import exporter, parity

LISTS = make_lists([4, 1, 6, 2], seed=2)


def built(num_features=3, seed=0):
    tf.keras.utils.set_random_seed(seed)
    scorer = models.MLPScorer([8], seed=seed)
    return models.model_builder(num_features, scorer).build()


def check_scores(combination):
    """Three models, and what scipy says of them, which the one of them says too."""
    several = [built(seed=seed) for seed in range(3)]
    each = [data.score_lists(model, LISTS, 2) for model in several]
    assert np.std(each, axis=0).min() > 1e-4
    model = models.combined_model(several, combination)
    expected = by_scipy(combination, each, LISTS)
    scores = data.score_lists(model, LISTS, 2)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    return several, expected


@pytest.mark.parametrize("combination", models.COMBINATIONS)
def test_the_model_is_what_scipy_says(combination):
    check_scores(combination)


# Runs of several models are exported with the other two.
@pytest.mark.parametrize(
    "combination",
    [
        pytest.param(name, marks=[pytest.mark.grid] * (name != "mean"))
        for name in models.COMBINATIONS
    ],
)
def test_its_export_is_what_scipy_says(combination, tmp_path):
    several, expected = check_scores(combination)
    version = exporter.export_ranker(several, str(tmp_path), combination=combination)
    found = exporter.load_scorer(version).scores(LISTS, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    signatures = tf.saved_model.load(version).signatures
    regress = exporter.REGRESS_SIGNATURE
    assert (regress in signatures) == (combination == "mean")


@pytest.mark.two_graphs
@pytest.mark.parametrize("combination", models.COMBINATIONS)
def test_padding_is_invisible(combination):
    model = models.combined_model([built(seed=1), built(seed=2)], combination)
    features, _ = data.padded_batch(LISTS, np.arange(LISTS.num_lists))
    mask = features["mask"]
    narrow = np.asarray(model(features))
    wide = np.asarray(model(widened(features, 3)))[:, :-3]
    np.testing.assert_allclose(narrow[mask], wide[mask], rtol=1e-5, atol=1e-6)
    assert np.isfinite(narrow).all()


@pytest.mark.parametrize("combination", models.COMBINATIONS)
def test_a_saved_model_scores_the_same(combination, tmp_path):
    model = models.combined_model([built(seed=1), built(seed=2)], combination)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras_file.load(path)
    scores = [data.score_lists(one, LISTS, 2) for one in (model, loaded)]
    np.testing.assert_array_equal(*scores)
    assert parts_of(loaded)[0] == combination and len(parts_of(loaded)[1]) == 2


def combined(combination, *scores, mask=None):
    several = [tf.constant([one], tf.float32) for one in scores]
    mask = tf.ones_like(several[0], tf.bool) if mask is None else tf.constant([mask])
    return models.CombinedScores(combination)([mask, *several]).numpy()[0]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("combination", ["zscore", "rank"])
def test_ties_and_scores_of_any_size(combination, jit):
    scores = ([1, 1, 0, 1], [3e38, -3e38, 0, 1e38], [1e-30, 2e-30, 4e-30, 3e-30])
    both = models.CombinedScores(combination)

    @tf.function(jit_compile=jit)
    def graph(mask, *several):
        return both([mask, *several])

    several = [tf.constant([one + [7]], tf.float32) for one in scores]
    found = graph(tf.constant([[True] * 4 + [False]]), *several)[0, :4]
    expected = np.mean(
        [OF_A_LIST[combination](np.array(one, float)) for one in scores], axis=0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_rounding_is_no_opinion():
    noisy = np.float32(1000) + np.float32([0, 6e-5, -6e-5])
    found = combined("zscore", noisy, [1, 2, 3])
    np.testing.assert_allclose(found, stats.zscore([1, 2, 3]) / 2, atol=1e-2)


@pytest.mark.parametrize("combination", models.COMBINATIONS)
def test_nan_shows(combination):
    assert np.isnan(combined(combination, [1, np.nan, 2], [1, 2, 3])[1])
    scores, mask = [1, np.nan, 2], [True, False, True]
    assert np.isfinite(combined(combination, scores, mask=mask)).all()


def test_the_mean_of_great_scores_is_finite():
    np.testing.assert_allclose(combined("mean", [3e38], [3e38], [3e38]), 3e38, 1e-6)


def test_bounds_of_a_combination_hold_what_rounding_changes():
    """Each model's scores are changed by up to the tolerance, ties among them."""
    rng = np.random.default_rng(0)
    lists = make_lists([30] * 4, seed=3)
    several = [built(seed=seed) for seed in range(3)]
    each = [data.score_lists(model, lists, 2) for model in several]
    for combination in models.COMBINATIONS:
        model = models.combined_model(several, combination)
        expected = parity.of_model(model, lists, 2, 1e-2)
        parity.check(lists, expected.scores, expected, "itself")
        widths = expected.highest - expected.lowest
        assert 0 < widths.mean() < {"mean": 0.1, "zscore": 0.3, "rank": 3}[combination]
        for _ in range(20):
            moved = []
            for scores in each:
                greatest = np.repeat(np.abs(scores.reshape(4, 30)).max(1), 30)
                share = rng.uniform(-1e-2, 1e-2, len(scores))
                moved.append(scores + share * greatest)
            other = by_scipy(combination, moved, lists)
            parity.check(lists, other, expected, "the model")
        with pytest.raises(ValueError, match="of 120 test items differently"):
            parity.check(lists, expected.scores[::-1], expected, "the model")


def test_models_of_other_features_are_refused(tmp_path):
    with pytest.raises(ValueError, match="numbers of features differ: 3, 4"):
        exporter.export_ranker([built(3), built(4)], str(tmp_path))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="at least one model"):
        exporter.export_ranker([], str(tmp_path))
    with pytest.raises(ValueError, match="`combination` must be"):
        models.combined_model([built(), built()], "median")
