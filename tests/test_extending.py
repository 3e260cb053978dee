"""The code of docs/extending.md runs, and keeps what the page says of it."""

import importlib.util
import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import value_and_gradient
from tfr_ext import losses, objectives, relaxations

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "extending.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

LABELS = np.array([[2.0, 0.0, 1.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0, 2.0]], np.float32)
SCORES = np.array([[0.3, -0.2, 1.7, 0.9, -1.1], [2.0, 0.1, -0.4, 1.2, 0.6]], np.float32)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The module of all the page's code; importing it runs its checks."""
    path = tmp_path_factory.mktemp("page") / "extending.py"
    path.write_text("\n".join(BLOCKS))
    spec = importlib.util.spec_from_file_location("extending", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["extending"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["extending"]


def gaussian_loss(page, topn=None, width=1.0, **kwargs):
    ndcg = objectives.NDCG(topn=topn, expected="gain")
    return losses.MetricLoss(page.GaussianSort(width), ndcg, **kwargs)


def test_the_module_is_short():
    lines = [line for line in BLOCKS[1].splitlines() if line.strip()]
    assert len(lines) < 20
    assert "class GaussianSort" in BLOCKS[1]


def test_padding_is_invisible(page):
    loss = gaussian_loss(page, topn=4)
    value, slopes = value_and_gradient(loss, LABELS, SCORES)
    where = [0, 3, 4, 7, 8]
    labels = np.full([2, 11], -1, np.float32)
    scores = np.full([2, 11], 1e9, np.float32)
    labels[:, where], scores[:, where] = LABELS, SCORES
    padded, padded_slopes = value_and_gradient(loss, labels, scores)
    np.testing.assert_allclose(padded, value, rtol=1e-6)
    np.testing.assert_allclose(padded_slopes[:, where], slopes, rtol=1e-5, atol=1e-7)
    assert not padded_slopes[labels < 0].any()
    assert slopes.any()


@pytest.mark.parametrize("spread", [0.0, 1.0, 1e4, 3e38])
def test_value_and_gradient_are_finite(page, spread):
    scores = np.clip(SCORES, -1, 1) * np.float32(spread)
    found = value_and_gradient(gaussian_loss(page, width=0.1), LABELS, scores)
    assert all(np.isfinite(x).all() for x in found)


def test_config_round_trips(page):
    loss = gaussian_loss(page, 3, 0.5, reduction="sum", name="mine", ragged=True)
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert type(again) is losses.MetricLoss
    config = again.get_config()
    assert config == loss.get_config()
    assert config["relaxation"] == {
        "class_name": "my_project>GaussianSort",
        "config": {"width": 0.5},
    }
    assert config["objective"]["config"]["topn"] == 3


def test_a_registered_function_is_saved_and_another_tells(page):
    loss = losses.MetricLoss(page.steep_positions, objectives.MAP())
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert float(again(LABELS, SCORES)) == float(loss(LABELS, SCORES))
    bare = losses.MetricLoss(lambda s, m: page.steep_positions(s, m), objectives.MAP())
    assert float(bare(LABELS, SCORES)) == float(loss(LABELS, SCORES))
    with pytest.raises(ValueError, match="register_keras_serializable"):
        bare.get_config()
    with pytest.raises(ValueError, match="RBP cannot be saved"):
        losses.MetricLoss(page.GaussianSort(), page.RBP()).get_config()


def test_the_loss_of_another_kind_keeps_the_contract(page):
    loss = page.HuberLoss("none", delta=0.5)
    far = np.abs(LABELS - SCORES)
    expected = np.where(far < 0.5, far**2 / 2, 0.5 * (far - 0.25))
    np.testing.assert_allclose(loss(LABELS, SCORES), expected, rtol=1e-6)
    assert page.HuberLoss.from_config(loss.get_config()).get_config()["delta"] == 0.5
    with pytest.raises(ValueError, match="`delta` must be"):
        page.HuberLoss(delta=0.0)


@pytest.mark.parametrize("topn", [None, 2])
def test_cold_limit_is_the_exact_metric(page, topn):
    loss = gaussian_loss(page, topn=topn, width=1e-4)
    exact = losses.PiRankNDCGLoss(topn=topn)
    np.testing.assert_allclose(loss(LABELS, SCORES), exact(LABELS, SCORES), rtol=1e-6)


def test_it_trains_a_model_that_is_saved(page, tmp_path):
    rng = np.random.default_rng(0)
    features = rng.normal(size=[64, 10, 3]).astype(np.float32)
    labels = np.clip(np.round(features @ [1.0, -1.0, 0.5]), 0, 2).astype(np.float32)
    labels[:, 8:] = -1  # padding
    tf.keras.utils.set_random_seed(1)
    scorer = tf.keras.Sequential(
        [tf.keras.layers.Dense(1), tf.keras.layers.Reshape([-1])]
    )
    scorer.compile(tf.keras.optimizers.Adam(0.05), loss=gaussian_loss(page, topn=5))
    history = scorer.fit(features, labels, epochs=15, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    scorer.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras")
    assert again.loss.get_config() == scorer.loss.get_config()


def test_its_width_may_be_a_schedule(page):
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    loss = gaussian_loss(page, width=schedule)
    loss.set_step(10)
    assert loss.scheduled_values() == {"width": 0.5}


def test_the_objective_is_rank_biased_precision(page):
    labels = tf.constant([[1.0, 0.0, 1.0, 0.0]])
    mask = tf.constant([[True, True, True, False]])
    indicators = relaxations.exact_sort(tf.constant([[1.0, 2.0, 0.0, 9.0]]), mask)
    rbp = page.RBP(persistence=0.5)
    np.testing.assert_allclose(rbp(indicators, labels, mask), [0.5 * (0.5 + 0.25)])
    assert isinstance(rbp, objectives.Objective)
