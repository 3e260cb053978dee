"""Losses under a strategy of two replicas; in a process of its own."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.losses import cases

SCRIPT = textwrap.dedent(
    """
    import sys

    import numpy as np
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2

    from tests.losses import cases
    from tfr_ext import losses

    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, [6, 5]).astype(np.float32)
    scores = rng.normal(size=[6, 5]).astype(np.float32)
    # Of the lists, and of the items.
    weightings = [
        None,
        rng.random([6, 1], np.float32),
        rng.random([6, 5], np.float32),
    ]

    for number, case in enumerate(getattr(cases, sys.argv[1], ())):
        with strategy.scope():
            loss = case.build(reduction="sum")
            variable = tf.Variable(1.5)

        @tf.function
        def step(y, s, *w):
            with tf.GradientTape() as tape:
                value = loss(y, s * variable, *w)
            return value, tape.gradient(value, variable)

        # Equal shares, as of a last batch that does not divide, and of five and one:
        # all for a loss of each class, of the others one in turn.
        divided = [*zip(weightings, (3, 4, 5))]
        if sys.argv[1] == "ONE_EACH" and case.key not in cases.OF_EACH_CLASS:
            divided = divided[number % 3 :][:1]
        for weights, cut in divided:
            batch = [labels, scores] + [weights] * (weights is not None)
            whole = step(*batch)
            shares = [
                strategy.experimental_distribute_values_from_function(
                    lambda context: tf.constant(
                        (x[:cut], x[cut:])[context.replica_id_in_sync_group]
                    )
                )
                for x in batch
            ]
            parts = strategy.run(step, args=tuple(shares))
            for total, part in zip(whole, parts):
                both = strategy.reduce("SUM", part, axis=None)
                np.testing.assert_allclose(both, total, rtol=1e-4, atol=1e-5)
        print("equal", case)
    if sys.argv[1] != "FITS":
        sys.exit()

    def fitted(make):
        tf.keras.utils.set_random_seed(0)
        model = make()
        x = tf.random.stateless_normal([8, 5, 3], [1, 2])
        y = tf.cast(x[..., 0] > 0, tf.float32)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        return model.fit(data, epochs=3, verbose=0).history["loss"]

    def make(loss=losses.SmoothILoss()):
        inputs = tf.keras.Input([5, 3])
        outputs = tf.keras.layers.Dense(1)(inputs)[:, :, 0]
        model = tf.keras.Model(inputs, outputs)
        model.compile("sgd", loss=loss)
        return model

    def mirrored(*loss):
        with strategy.scope():
            return make(*loss)

    np.testing.assert_allclose(fitted(mirrored), fitted(make), rtol=1e-5)
    print("equal fit")
    compiled = losses.JitCompiledLoss(losses.SmoothILoss())
    np.testing.assert_allclose(
        fitted(lambda: mirrored(compiled)), fitted(make), rtol=1e-5
    )
    print("equal compiled fit")
    counting = losses.JitCompiledLoss(losses.PointwiseKLBinomialLoss(max_label=1))
    try:
        fitted(lambda: mirrored(counting))
    except ValueError as error:
        assert "pointwise_kl_binomial_loss counts the classes" in str(error)
        print("refused")
    """
)


@pytest.mark.parametrize(
    "which",
    [
        "FITS",
        pytest.param("ONE_EACH", marks=pytest.mark.any_keras),
        pytest.param("CASES", marks=pytest.mark.grid),
    ],
)
def test_two_replicas_equal_one(which):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, which],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "CUDA_VISIBLE_DEVICES": "-1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    fits = ["equal fit", "equal compiled fit", "refused"]
    each = [f"equal {case}" for case in getattr(cases, which, ())]
    assert done.stdout.splitlines() == (each or fits)
