"""Scores far apart: no key errs more than TensorFlow Ranking's own loss."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_ranking.python import losses_impl

from tests.losses.tfr import lists
from tests.losses.tfr.lists import HOST
from tests.oracles import gradient, tfr
from tfr_ext import losses

SIZE, EACH = 8, 4
EPSILON = np.finfo(np.float32).eps
SEED = 37  # RankDistil's, which has no parameter for it.


def _scores():
    """Lists of scores that float32 holds, by kind."""
    rng = np.random.default_rng(0)
    normal = 3 * rng.normal(size=[EACH, SIZE])
    one = np.arange(SIZE) == rng.integers(SIZE, size=[EACH, 1])
    group = rng.random([EACH, SIZE]) < 0.5
    return {
        "near": normal,
        "thousands": 1e3 * normal,
        "offset": normal + 1e4,
        "far offset": normal - 1e7,
        "one above": normal + 1e7 * one,
        "one below": normal - 1e7 * one,
        "two groups": normal + 1e4 * group,
        "far groups": normal + 1e7 * group,
        "Cauchy, cubed": rng.standard_cauchy([EACH, SIZE]) ** 3,
        "ties": np.round(normal),
    }


SCORES = _scores()
# No two labels of a list are equal, so that ListMLE has but one order.
LABELS = np.random.default_rng(1).permuted(
    np.tile(np.arange(SIZE) / 2, [EACH * len(SCORES), 1]), axis=1
)
SAMPLED = ("yeti_logistic_loss", "gumbel_approx_ndcg_loss")
# Neither loss can tell close scores of both groups apart: TensorFlow Ranking's those of
# the lower, ours those that are far from 0.
LEFT_OUT = {"gumbel_approx_ndcg_loss": "far groups"}


def _measured(key, module, scores):
    """The value of each list, and the slopes, with the same draws each time."""
    given = {"ordinal_size": 3} if key == "ordinal_loss" else {}
    given |= {"seed": SEED} if key in SAMPLED else {}
    loss = module.get(key, reduction="none", **given)
    value, slopes = lists.value_and_gradient(
        key, loss, LABELS.astype(np.float32), scores
    )
    return value.reshape([len(LABELS), -1]).sum(axis=1), slopes


def _exact(key, scores):
    """The same from the definition, in float64."""
    if key in tfr.LOSSES:
        of_lists = [tfr.LOSSES[key]] * len(LABELS)
    else:
        samples = losses.get(key)._sample_size
        tf.random.set_seed(7)
        noise = losses_impl._sample_gumbel([len(LABELS), samples, SIZE], seed=SEED)
        of_lists = [
            functools.partial(tfr.SAMPLED[key], noise=rows)
            for rows in noise.numpy().astype(float).tolist()
        ]
    of_scores = [functools.partial(f, y) for f, y in zip(of_lists, LABELS.tolist())]
    scores = scores.astype(float).tolist()
    values = [complex(f(s)).real for f, s in zip(of_scores, scores)]
    return values, [gradient(f, s) for f, s in zip(of_scores, scores)]


@pytest.mark.parametrize("key", lists.KEYS)
def test_it_errs_no_more_than_tensorflow_rankings(key):
    scores = np.concatenate([*SCORES.values()]).astype(np.float32)
    results = _exact(key, scores), *(_measured(key, m, scores) for m in (losses, HOST))
    for of_batch in zip(*results):
        by_kind = (np.reshape(x, [len(SCORES), EACH, -1]) for x in of_batch)
        for kind, exact, ours, theirs in zip(SCORES, *by_kind):
            assert np.isfinite(ours).all()
            error, of_theirs = (np.abs(x - exact).max(axis=1) for x in (ours, theirs))
            allowed = of_theirs + 16 * EPSILON * np.abs(exact).max(axis=1)
            no_more = (error <= allowed) | np.isnan(of_theirs)
            assert no_more.all() or LEFT_OUT.get(key) == kind, (kind, error, of_theirs)
