"""Learning-rate schedules: values by hand."""

import numpy as np
import pytest

from tfr_ext import schedules


def rates(schedule, steps):
    rate = schedules.learning_rate(schedule, 2.0, steps_per_epoch=10, num_epochs=6)
    return [float(rate(s)) for s in steps]


def test_values():
    assert schedules.learning_rate("constant", 0.5, 10, 6) == 0.5
    np.testing.assert_allclose(rates("exponential:0.5", [0, 9, 10, 25]), [2, 2, 1, 0.5])
    np.testing.assert_allclose(rates("step:2:0.1", [19, 20, 40]), [2, 0.2, 0.02])
    np.testing.assert_allclose(rates("cosine", [0, 30, 60]), [2, 1, 0], atol=1e-6)
    np.testing.assert_allclose(
        rates("cosine:2", [0, 10, 20, 40, 60]), [0, 1, 2, 1, 0], atol=1e-6
    )


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "linear",
        "constant:1",
        "exponential",
        "exponential:2",
        "exponential:x",
        "step:2",
        "step:0:0.5",
        "step:2:0.5:1",
        "cosine:6",
        "cosine:1:2",
        "cosine:-1",
    ],
)
def test_anything_else_is_told(schedule):
    with pytest.raises(ValueError, match="Expected 'constant'"):
        rates(schedule, [0])
