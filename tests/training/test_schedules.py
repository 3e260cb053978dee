"""Schedules of learning rates and loss parameters: values by hand."""

import numpy as np
import pytest

from tests.helpers import needs_tfr
from tfr_ext import losses
from tfr_ext.training import schedules


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


def parameters(schedule, steps, initial=2.0):
    value = schedules.loss_parameter(
        schedule, initial, steps_per_epoch=10, num_epochs=6
    )
    return [float(value(s)) for s in steps]


def test_values_of_loss_parameters():
    for schedule, steps, expected in (
        ("exponential:0.25", [0, 5, 10, 20], [2, 1, 0.5, 0.125]),
        ("exponential:4", [0, 5, 20], [2, 4, 32]),
        ("exponential:0.25:0.4", [0, 5, 10, 20], [2, 1, 0.5, 0.4]),
        ("exponential:4:30", [10, 20, 60], [8, 30, 30]),
        ("step:2:0.1", [19, 20, 40], [2, 0.2, 0.02]),
        ("step:1:3", [9, 10, 20], [2, 6, 18]),
        ("linear:5", [0, 20, 60, 70], [2, 3, 5, 5]),
        ("linear:0.5", [0, 40, 60], [2, 1, 0.5]),
    ):
        np.testing.assert_allclose(parameters(schedule, steps), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "constant",
        "cosine",
        "exponential",
        "exponential:0",
        "exponential:-1",
        "exponential:nan",
        "exponential:x",
        "exponential:0.5:3",
        "exponential:2:1",
        "exponential:2:2",
        "exponential:2:9:9",
        "step:2",
        "step:0:0.5",
        "step:1.5:0.5",
        "step:2:0",
        "linear",
        "linear:inf",
        "linear:1:2",
    ],
)
def test_any_other_loss_schedule_is_told(schedule):
    with pytest.raises(ValueError, match="Expected 'exponential:FACTOR'.*'linear"):
        parameters(schedule, [0])


def test_a_loss_schedule_starts_from_the_given_value_or_the_default():
    for params, initial in (({}, 1.0), ({"alpha": 7}, 7.0)):
        scheduled = schedules.loss_parameters(
            "smoothi_loss",
            {"metric": "map", **params},
            {"alpha": "exponential:2"},
            steps_per_epoch=10,
            num_epochs=6,
        )
        assert scheduled["metric"] == "map"
        assert float(scheduled["alpha"](0)) == initial
        assert losses.get("smoothi_loss", **scheduled).scheduled_values()


@pytest.mark.parametrize(
    ("loss", "name", "told"),
    [
        ("smoothi_loss", "aplha", "no parameter 'aplha'; did you mean 'alpha'"),
        ("smoothi_loss", "delta", "no schedule of 'delta'. .* schedules of: alpha"),
        pytest.param(
            "approx_ndcg_loss",
            "temperature",
            "'temperature'. .* of: nothing",
            marks=needs_tfr,
        ),
    ],
)
def test_what_has_no_schedule_is_told(loss, name, told):
    with pytest.raises(ValueError, match=told):
        schedules.loss_parameters(loss, {}, {name: "exponential:2"}, 10, 6)


def test_a_parameter_with_two_schedules_is_told():
    schedule = schedules.loss_parameter("linear:3", 1.0, 10, 6)
    with pytest.raises(ValueError, match="has a schedule already"):
        schedules.loss_parameters(
            "smoothi_loss", {"alpha": schedule}, {"alpha": "linear:2"}, 10, 6
        )
