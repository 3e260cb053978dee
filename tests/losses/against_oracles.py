"""Losses of lists amid padding, compared with oracles of one list."""

import numpy as np

from tests import oracles
from tests.helpers import padded, value_and_gradient


def assert_equals_oracle(loss, relaxed, lists, exact=None, gradient=None):
    """Compares each list: `exact` gives the value where it is not that of `relaxed`."""
    gradient = gradient or oracles.gradient
    labels, scores, places = padded(lists)
    values, slopes = value_and_gradient(loss, labels, scores)
    for b, (list_scores, list_labels) in enumerate(lists):
        value = (exact or relaxed)(list_scores, list_labels)
        np.testing.assert_allclose(
            np.ravel(values[b]), np.real(value), rtol=1e-9, atol=1e-12
        )
        expected = np.zeros(scores.shape[1])
        expected[places[b]] = gradient(
            lambda s, y=list_labels: relaxed(s, y), list_scores
        )
        np.testing.assert_allclose(slopes[b], expected, rtol=1e-7, atol=1e-10)


def assert_equals_dense(loss, relaxed, lists):
    """Compares all values, and some slopes, with those of `relaxed(scores, labels)`."""
    labels, scores, places = padded(lists)
    values, slopes = value_and_gradient(loss, labels, scores)
    for b, (list_scores, list_labels) in enumerate(lists):
        np.testing.assert_allclose(
            values[b, 0],
            relaxed(np.array(list_scores), list_labels),
            rtol=1e-9,
            atol=1e-12,
        )
        items = range(0, len(list_scores), 9)
        expected = oracles.gradient(
            lambda s, y=list_labels: relaxed(s, y), list_scores, items
        )
        np.testing.assert_allclose(
            slopes[b, places[b]][items], expected, rtol=1e-7, atol=1e-10
        )
