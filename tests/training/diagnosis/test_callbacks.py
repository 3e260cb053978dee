"""The callback: its figures by hand, and training that it leaves as it is."""

import dataclasses
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists, needs_tfr, small_fitter
from tests.training.graded import MULTINOMIAL
from tests.training.graded import make_fitter as make_multinomial
from tfr_ext import losses, models
from tfr_ext.training import LossConfig, diagnosis, fitter, lists_datasets
from tfr_ext.training.diagnosis import callbacks

PADDING = -1.0


class Scores(tf.keras.Model):
    """Gives each item its feature times a weight."""

    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(name="scale", shape=[], initializer="ones")

    def call(self, x):
        return x * self.scale


def measured(loss, scores, labels, weights=None):
    return {
        name: float(x)
        for name, x in callbacks.measures_of_batch(
            Scores(), loss, tf.constant(scores), tf.constant(labels), weights
        ).items()
    }


def ndcg(labels, scores, topn):
    """Of one list, by a loop."""
    best = sorted(labels, reverse=True)
    ranked = [label for _, label in sorted(zip(scores, labels), key=lambda x: -x[0])]

    def dcg(of):
        return sum((2**y - 1) / np.log2(r + 2) for r, y in enumerate(of[:topn]))

    return dcg(ranked) / dcg(best)


LABELS = np.float32([[2, 0, 1, 0], [0, 0, 0, 0], [0, 1, 3, PADDING]])
SCORES = np.float32([[0.1, 0.4, 0.3, 0.2], [1, 2, 3, 4], [0.5, 0.7, 0.1, 9]])


@pytest.mark.parametrize(
    "loss",
    [
        losses.SmoothILoss(topn=3, alpha=2.0),
        losses.PiRankNDCGLoss(topn=3),
        losses.PiRankNDCGLoss(topn=3, depth=2),
        losses.SoftSortLoss(topn=3, form="position"),
        losses.ApproxMetricLoss(topn=3),
    ],
)
def test_both_metrics_of_the_lists_with_anything_relevant(loss):
    values = measured(loss, SCORES, LABELS)
    assert loss.relaxed_metric().name == "ndcg_3"
    exact = ndcg(LABELS[0], SCORES[0], 3) + ndcg(LABELS[2, :3], SCORES[2, :3], 3)
    np.testing.assert_allclose(values["exact"], exact, rtol=1e-6)
    config = {**loss.get_config(), "reduction": "none"}
    if "straight_through" in config:  # its value would be the exact one
        np.testing.assert_allclose(
            2 - 3 * float(loss(LABELS, SCORES)), exact, rtol=1e-5
        )
        config["straight_through"] = False
    per_list = type(loss).from_config(config)(LABELS, SCORES).numpy().ravel()
    np.testing.assert_allclose(values["relaxed"], 2 - per_list.sum(), rtol=1e-6)
    assert values["not_empty"] == 2
    assert abs(values["relaxed"] - exact) > 0.01


def test_a_cost_is_as_it_stands():
    values = measured(losses.PiRankARPLoss(), SCORES, LABELS)
    # Ranks 4 and 2 of labels 2 and 1; ranks 1 and 3 of labels 1 and 3.
    exact = (2 * 4 + 1 * 2) / 3 + (1 * 1 + 3 * 3) / 4
    np.testing.assert_allclose(values["exact"], exact, rtol=1e-6)


def test_the_gradient_norm_is_that_of_a_tape():
    loss = losses.SmoothILoss()
    scale = tf.Variable(1.0)
    weights = np.float32([1, 1, 3])
    with tf.GradientTape() as tape:
        value = loss(LABELS, SCORES * scale, weights)
    expected = abs(float(tape.gradient(value, scale)))
    assert expected > 1e-4
    values = measured(loss, SCORES, LABELS, weights)
    np.testing.assert_allclose(values["gradient_norm"], expected, rtol=1e-5)


MIXED_LABELS = np.float32(
    [
        [1, 0, 2, PADDING],  # contributes
        [0, 0, 0, 0],  # nothing relevant
        [2, 2, 2, PADDING],  # all equal
        [1, PADDING, PADDING, PADDING],  # one item: all equal
        [0, 1, 0, 1],  # so far apart that the indicators are exact
        [PADDING] * 4,  # no list
        [1, 0, 0, 2],  # of no weight
    ]
)
NEAR, FAR = np.linspace(0, 0.3, 4), 1e4 * np.arange(4)
MIXED_SCORES = np.float32([NEAR, NEAR, NEAR, NEAR, FAR, NEAR, NEAR])
MIXED_WEIGHTS = np.float32([1, 1, 1, 1, 1, 1, 0])


def test_idle_lists_by_cause():
    loss = losses.SmoothILoss(alpha=1.0)
    values = measured(loss, MIXED_SCORES, MIXED_LABELS, MIXED_WEIGHTS)
    assert values["lists"] == 5
    causes = [values[cause] for cause in callbacks.CAUSES]
    assert causes == [1, 2, 1]
    shares = callbacks.mean_measures([values], "ndcg")
    assert shares["idle_lists"] == 4 / 5 and shares["idle_equal"] == 2 / 5


@needs_tfr
def test_equal_labels_are_as_good_as_others_to_a_pointwise_loss():
    loss = losses.get("mean_squared_loss")
    squared = measured(loss, MIXED_SCORES, MIXED_LABELS, MIXED_WEIGHTS)
    assert [squared[cause] for cause in callbacks.CAUSES] == [0, 0, 0]


def dataset(labels=None, features=None):
    x = np.random.default_rng(0).normal(size=[8, 5, 3]).astype(np.float32)
    y = (x[..., 0] > 0).astype(np.float32)
    x, y = x if features is None else features, y if labels is None else labels
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(3)


def scorer(loss):
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(1), tf.keras.layers.Reshape([5])]
    )
    model.compile("adam", loss=loss)
    return model


def test_the_callback_brings_the_batches_together():
    loss, lines = losses.SmoothILoss(topn=3), []
    model, batches = scorer(loss), dataset()
    callback = diagnosis.TrainingDiagnosis(batches, num_batches=2, warn=lines.append)
    history = model.fit(batches, epochs=2, callbacks=[callback], verbose=0).history
    assert lines == []
    chosen = list(batches)[:2]
    norms, exact = [], []
    for x, y in chosen:
        with tf.GradientTape() as tape:
            value = loss(y, model(x))
        gradients = tape.gradient(value, model.trainable_variables)
        norms.append(np.sqrt(sum((g.numpy() ** 2).sum() for g in gradients)))
        exact += [
            ndcg(a, b, 3) for a, b in zip(y.numpy(), model(x).numpy()) if max(a) > 0
        ]
    for name, value in (
        ("gradient_norm", np.mean(norms)),
        ("gradient_norm_max", np.max(norms)),
        ("exact_ndcg_3", np.mean(exact)),
    ):
        np.testing.assert_allclose(history[name][-1], value, rtol=1e-4)


def test_batches_of_all_shapes_have_one_graph():
    """Arrays, too, with weights that are None; the mean is that of each by itself."""
    tf.keras.utils.set_random_seed(0)
    inputs, given, alone = tf.keras.Input([None, 3]), [], []
    scores = tf.keras.layers.Reshape([-1])(tf.keras.layers.Dense(1)(inputs))
    model = tf.keras.Model(inputs, scores)
    model.compile("adam", loss=losses.SmoothILoss())
    for (x, y), width in zip(dataset(), (5, 3)):
        x, y = (each.numpy()[: width - 2, :width] for each in (x, y))
        given.append((x, y, None))
    for batches in (given, given[:1], given[1:]):
        callback = diagnosis.TrainingDiagnosis(batches)
        callback.set_model(model)
        callback.on_train_begin()
        alone.append(logs := {})
        for epoch in range(2):
            callback.on_epoch_end(epoch, logs)
        assert callback._run.experimental_get_tracing_count() == 1
    both, *each = (logs["gradient_norm"] for logs in alone)
    np.testing.assert_allclose(both, np.mean(each), rtol=1e-5)


def test_a_loss_that_is_not_finite_is_explained():
    labels = np.ones([8, 5], np.float32)
    labels[1, 2] = np.nan
    lines, batches = [], dataset(labels)
    callback = diagnosis.TrainingDiagnosis(batches, warn=lines.append)
    scorer(losses.ListNetLoss()).fit(batches, callbacks=[callback], verbose=0)
    assert lines[0].endswith("not finite: list 2, item 3 has nan.")


def test_the_cause_is_looked_for_in_order():
    model = Scores()
    x, y = tf.ones([2, 3]), np.float32([[1, 0, 0]] * 2)
    assert "up to 1, are finite" in diagnosis.cause(model, x, y)
    bad = np.float32([[1, 1, 1], [1, 1, np.inf]])
    told = diagnosis.cause(model, bad, y)
    assert "features of that batch are not finite: the input, list 2, item 3" in told
    model.scale.assign(3e38)
    told = diagnosis.cause(model, 10 * x, y)
    assert "the scores are not: the largest weight is 3e+38" in told
    model.scale.assign(np.nan)
    assert "scale" in diagnosis.cause(model, x, y)


def test_a_label_above_max_label_is_the_cause_of_a_bad_loss():
    model, x = Scores(), tf.ones([2, 3])
    y = np.float32([[1, 0, 2], [0, 3, -1]])
    model.compile("sgd", losses.PointwiseKLBinomialLoss(max_label=2.0))
    told = diagnosis.cause(model, x, y)
    assert "max_label of the loss: list 2, item 2 has 3, expected at most 2" in told
    model.compile("sgd", losses.PointwiseKLBinomialLoss(max_label=3.0))
    assert "are finite" in diagnosis.cause(model, x, y)
    # A metric loss that has no highest label.
    model.compile("sgd", losses.SmoothILoss())
    assert "are finite" in diagnosis.cause(model, x, y)


def test_a_bad_loss_is_told_with_what_can_cause_it():
    stop = diagnosis.StopAtBadLoss()
    for batch in range(3):
        stop.on_train_batch_end(batch, {"loss": 1.0})
    for value in (np.nan, np.inf):
        with pytest.raises(FloatingPointError) as error:
            stop.on_train_batch_end(3, {"loss": value})
        for part in ("epoch 1, batch 4", "A label above max_label", "infinite score"):
            assert part in str(error.value)


def test_a_bad_loss_of_several_steps_at_a_time_is_of_one_of_them():
    stop = diagnosis.StopAtBadLoss(lambda epoch, batch: pytest.fail("looked at one"))
    stop.on_epoch_begin(1)
    stop.on_train_batch_end(1, {"loss": 1.0})
    with pytest.raises(FloatingPointError, match="epoch 2, one of the batches 3 to 4"):
        stop.on_train_batch_end(3, {"loss": np.nan})


def test_wrong_arguments_are_told():
    with pytest.raises(ValueError, match="`num_batches` must be an integer >= 1"):
        diagnosis.TrainingDiagnosis(dataset(), num_batches=0)
    with pytest.raises(ValueError, match="`loss` must be given .* 'mse'"):
        scorer("mse").fit(
            dataset(), callbacks=[diagnosis.TrainingDiagnosis(dataset())], verbose=0
        )
    with pytest.raises(ValueError, match="at least one batch"):
        scorer(losses.SmoothILoss()).fit(
            dataset(), callbacks=[diagnosis.TrainingDiagnosis([])], verbose=0
        )


def make_fitter(directory, epochs, loss):
    tf.keras.utils.set_random_seed(0)
    lists = make_lists([4, 3, 5, 2] * 4)
    return small_fitter(
        models.model_builder(3, models.MLPScorer([4], dropout=0.3)),
        lists_datasets.ListsDatasets(lists, lists, 4, 0),
        directory,
        epochs,
        loss,
    )


PLAIN = LossConfig("list_net_loss")  # Its graph is built soon.


def test_no_callback_is_slow(tmp_path, monkeypatch, capfd):
    """TensorBoard's, which writes of epochs alone, is not called at batches."""

    def wait(self, batch, logs=None):
        time.sleep(0.05)

    monkeypatch.setattr(diagnosis.StopAtBadLoss, "on_train_batch_end", wait)
    built = make_fitter(tmp_path, 2, PLAIN)
    built._steps = 8  # The warning comes after six batches.
    built.train_and_validate()
    assert "is slow" not in capfd.readouterr().err
    board = fitter.LateTensorBoard
    for name in ("on_train_batch_begin", "on_train_batch_end"):
        assert getattr(board, name) is getattr(tf.keras.callbacks.Callback, name)


@pytest.mark.parametrize("there", [True, False])
def test_logs_for_tensorboard_where_it_is_installed(
    tmp_path, monkeypatch, capsys, there
):
    if there:
        pytest.importorskip("tensorboard")
    else:
        monkeypatch.setitem(sys.modules, "tensorboard", None)
    make_fitter(tmp_path, 2, PLAIN).train_and_validate()
    for part in ("train", "validation"):
        written = [*tmp_path.glob(f"tensorboard/{part}/events*")]
        assert len(written) == (1 if there else 0)
    told = capsys.readouterr().out.count("the package tensorboard is not installed")
    assert told == (0 if there else 1)


@pytest.mark.grid
def test_training_is_the_same_with_and_without_and_resumed(tmp_path):
    loss = LossConfig(params={"topn": 5}, schedules={"alpha": "exponential:2"})
    plain = make_fitter(tmp_path / "plain", 2, loss).train_and_validate()
    loss = dataclasses.replace(loss, loss_diagnostics=True)
    for epochs in (1, 2):
        told = make_fitter(tmp_path / "told", epochs, loss)
        diagnosed = told.train_and_validate()
    for x, y in zip(plain.model.get_weights(), diagnosed.model.get_weights()):
        np.testing.assert_array_equal(x, y)
    without, full = plain.history, diagnosed.history
    assert {name: full[name] for name in without} == without
    assert {len(values) for values in full.values()} == {2}
    assert full.keys() - without.keys() == {
        "gradient_norm",
        "gradient_norm_max",
        "idle_lists",
        "idle_empty",
        "idle_equal",
        "idle_saturated",
        "relaxed_ndcg_5",
        "exact_ndcg_5",
    }


def test_losses_of_distributions_have_no_relaxed_metric(tmp_path):
    lists = make_lists([4, 3, 5, 2], labels=np.arange(14) % 3)
    trained = make_multinomial(
        tmp_path, lists, 1, loss=LossConfig(MULTINOMIAL, loss_diagnostics=True)
    ).train_and_validate()
    assert trained.history["gradient_norm"][0] > 0
    assert trained.history["idle_lists"] == [0]
    assert not [name for name in trained.history if "relaxed" in name]


def test_a_penalty_on_weights_hides_nothing():
    """A dead model's loss is told though the penalty still shrinks its weights."""
    lines = []
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(1, kernel_regularizer="l2"),
            tf.keras.layers.Lambda(lambda scores: 0.0 * scores[..., 0]),
        ]
    )
    batch = (tf.ones([2, 3, 4]), tf.constant([[1.0, 0.0, 2.0]] * 2))
    model.compile("sgd", losses.ListNetLoss())
    watch = diagnosis.TrainingDiagnosis([batch], warn=lines.append)
    fitted = model.fit(*batch, epochs=4, verbose=0, callbacks=[watch])
    assert fitted.history["loss"][0] > fitted.history["loss"][-1]
    np.testing.assert_array_equal(fitted.history["gradient_norm"], 0)
    assert any("The gradient is 0" in line for line in lines)
    assert any("in 3 epochs in a row" in line for line in lines)


def test_a_constant_loss_is_told_without_the_diagnosis():
    lines = []
    watch = diagnosis.LossWatch(lines.append)
    for epoch in range(4):
        watch.on_epoch_end(epoch, {"loss": 0.5})
    assert len(lines) == 1 and lines[0].startswith("After epoch 3: The loss was 0.5")
