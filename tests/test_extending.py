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


def test_the_module_is_short():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) < 30
    assert "class GaussianSortNDCGLoss" in BLOCKS[0]


def test_padding_is_invisible(page):
    loss = page.GaussianSortNDCGLoss(topn=4)
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
    found = value_and_gradient(page.GaussianSortNDCGLoss(width=0.1), LABELS, scores)
    assert all(np.isfinite(x).all() for x in found)


def test_config_round_trips(page):
    cls = page.GaussianSortNDCGLoss
    loss = cls(topn=3, width=0.5, reduction="sum", name="mine", ragged=True)
    again = tf.keras.losses.deserialize(tf.keras.losses.serialize(loss))
    assert type(again) is cls
    assert again.get_config() == loss.get_config()
    assert loss.get_config()["topn"] == 3
    assert loss.get_config()["width"] == 0.5


@pytest.mark.parametrize("topn", [None, 2])
def test_cold_limit_is_the_exact_metric(page, topn):
    loss = page.GaussianSortNDCGLoss(topn=topn, width=1e-4)
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
    scorer.compile(
        tf.keras.optimizers.Adam(0.05), loss=page.GaussianSortNDCGLoss(topn=5)
    )
    history = scorer.fit(features, labels, epochs=15, verbose=0).history["loss"]
    assert history[-1] < 0.7 * history[0]
    scorer.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras")
    assert again.loss.get_config() == scorer.loss.get_config()


def test_its_width_may_be_a_schedule(page):
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)
    loss = page.GaussianSortNDCGLoss(width=schedule)
    loss.set_step(10)
    assert loss.scheduled_values() == {"width": 0.5}


def test_the_objective_is_rank_biased_precision(page):
    labels = tf.constant([[1.0, 0.0, 1.0, 0.0]])
    mask = tf.constant([[True, True, True, False]])
    indicators = relaxations.exact_sort(tf.constant([[1.0, 2.0, 0.0, 9.0]]), mask)
    rbp = page.RBP(persistence=0.5)
    np.testing.assert_allclose(rbp(indicators, labels, mask), [0.5 * (0.5 + 0.25)])
    assert isinstance(rbp, objectives.Objective)
