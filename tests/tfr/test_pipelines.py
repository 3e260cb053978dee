"""TensorFlow Ranking's pipelines with the losses and models of this package."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists, needs_tfr
from tfr_ext import data, losses, models
from tfr_ext.serving import exporter
from tfr_ext.sources.data_splits import Splits
from tfr_ext.training import (
    DataConfig,
    MetricsConfig,
    ModelConfig,
    TrainingConfig,
    train,
)

pytestmark = needs_tfr
LISTS = make_lists([4, 3, 5, 2] * 6)


@pytest.fixture
def tfr():
    """TensorFlow Ranking, imported when a test runs."""
    import tfr_ext.tfr  # noqa: F401

    return pytest.importorskip("tensorflow_ranking")


def own_pipeline(tfr, base="SimplePipeline", **members):
    """A user's own pipeline, of one of TensorFlow Ranking's."""
    import tfr_ext.tfr

    bases = (tfr_ext.tfr.LossByKey, getattr(tfr.keras.pipeline, base))
    return type("MyPipeline", bases, members)


def datasets(tfr):
    batches = data.BatchedLists(LISTS, 8).dataset()

    class Datasets(tfr.keras.pipeline.NullDatasetBuilder):
        def build_signatures(self, model):
            return exporter.signatures(model)

    return Datasets(batches.repeat(), batches)


def hparams(tfr, directory, loss, **given):
    return tfr.keras.pipeline.PipelineHparams(
        model_dir=str(directory),
        num_epochs=3,
        steps_per_epoch=3,
        validation_steps=3,
        learning_rate=0.05,
        loss=loss,
        steps_per_execution=1,
        **given,
    )


def ours():
    tf.keras.utils.set_random_seed(0)
    return models.model_builder(3, models.MLPScorer([8]))


def theirs(tfr):
    """A builder of TensorFlow Ranking, of our transforms and scorer."""
    spec = {"float_features": tf.io.FixedLenFeature([3], tf.float32)}
    tf.keras.utils.set_random_seed(0)
    return tfr.keras.model.ModelBuilder(
        input_creator=tfr.keras.model.FeatureSpecInputCreator({}, spec),
        preprocessor=models.FeatureTransforms([models.Clip(-9.0, 9.0)]),
        scorer=models.MLPScorer([8]),
        mask_feature_name="mask",
    )


@pytest.mark.parametrize(
    "builder, key",
    [
        ("theirs", "list_net_loss"),
        ("ours", "approx_ndcg_loss"),
        pytest.param("theirs", "approx_ndcg_loss", marks=pytest.mark.grid),
        pytest.param("theirs", "smoothi_loss", marks=pytest.mark.grid),
        pytest.param("ours", "smoothi_loss", marks=pytest.mark.grid),
    ],
)
def test_a_simple_pipeline_trains_with_any_key(tfr, tmp_path, key, builder):
    build = ours() if builder == "ours" else theirs(tfr)
    cls, seen = recording_pipeline(tfr)
    pipeline = cls(build, datasets(tfr), hparams(tfr, tmp_path, key))
    loss = pipeline.build_loss()
    assert type(loss) is type(losses.get(key))
    with pytest.raises(ValueError):  # what the mix-in is for
        tfr.keras.losses.get("smoothi_loss")
    pipeline.train_and_validate()
    exported = tf.saved_model.load(str(tmp_path / "export" / "latest_model"))
    x = {"float_features": LISTS.features[np.newaxis, :4]}
    scores = exported.signatures["serving_default"](**map_constants(x))["scores"]
    before = build.build()
    masked = {**x, "mask": np.ones([1, 4], bool)}
    assert np.abs(scores - before(masked)).max() > 1e-3  # It has learnt something.
    assert seen.history["loss"][-1] < seen.history["loss"][0]


def map_constants(x):
    return {name: tf.constant(value) for name, value in x.items()}


def recording_pipeline(tfr, **members):
    """A pipeline with a callback of its own, and that callback."""
    seen = tf.keras.callbacks.History()

    def build_callbacks(self):
        return [*super(cls, self).build_callbacks(), seen]

    cls = own_pipeline(tfr, build_callbacks=build_callbacks, **members)
    return cls, seen


def own_history(tfr, directory, key, **members):
    """What a pipeline's epochs gave."""
    cls, seen = recording_pipeline(tfr, **members)
    cls(ours(), datasets(tfr), hparams(tfr, directory, key)).train_and_validate()
    return seen.history


def test_the_mix_in_sets_scheduled_arguments(tfr, tmp_path):
    alpha = tf.keras.optimizers.schedules.PolynomialDecay(1.0, 9, 10.0)
    history = own_history(
        tfr, tmp_path, "smoothi_loss", loss_params={"alpha": alpha, "topn": 3}
    )
    np.testing.assert_allclose(history["alpha"], [3, 6, 9], rtol=1e-6)


def test_each_task_has_its_key(tfr, tmp_path):
    cls = own_pipeline(tfr, "MultiTaskPipeline", loss_params={"a": {"alpha": 3.0}})
    given = {"a": "smoothi_loss", "b": "softmax_loss"}
    built = cls(ours(), datasets(tfr), hparams(tfr, tmp_path, given)).build_loss()
    assert isinstance(built["a"], losses.SmoothILoss)
    assert built["a"].get_config()["alpha"] == 3
    assert type(built["b"]).__name__ == "SoftmaxLoss"


def test_wrong_keys_and_arguments_are_told(tfr, tmp_path):
    for loss, params, told in (
        ("smoothi", {}, "did you mean 'smoothi_loss'"),
        ("smoothi_loss", {"aplha": 1.0}, "did you mean 'alpha'"),
    ):
        cls = own_pipeline(tfr, loss_params=params)
        pipeline = cls(ours(), datasets(tfr), hparams(tfr, tmp_path, loss))
        with pytest.raises(ValueError, match=told):
            pipeline.build_loss()


@pytest.mark.first_case
@pytest.mark.parametrize("key", ["list_net_loss", "approx_ndcg_loss"])
def test_our_pipeline_gives_the_history_of_train(tfr, tmp_path, key):
    import tfr_ext.tfr

    config = TrainingConfig(
        data=DataConfig(),
        model=ModelConfig("mlp", hidden_sizes=(8,)),
        evaluation=MetricsConfig(metrics=("ndcg_10",)),
        learning_rate=0.01,
        num_epochs=3,
        batch_size=8,
        verbose="silent",
        export_model=False,
        draw_curves=False,
        model_dir=tmp_path / "plain",
    )
    config = dataclasses.replace(
        config, loss=dataclasses.replace(config.loss, loss=key)
    )
    plain = train(config, Splits(LISTS, LISTS, LISTS))
    tf.keras.utils.set_random_seed(config.data.seed)
    pipeline = tfr_ext.tfr.RankingPipeline(
        models.model_builder(3, models.MLPScorer([8], seed=config.data.seed)),
        tfr_ext.tfr.ListsDatasetBuilder(
            LISTS, LISTS, 8, config.data.seed, max_padding=config.max_padding
        ),
        tfr_ext.tfr.RankingHparams(
            model_dir=str(tmp_path / "tfr"),
            num_epochs=3,
            steps_per_epoch=None,
            validation_steps=None,
            learning_rate=0.01,
            loss=key,
            convention=dataclasses.replace(
                config.evaluation.convention(), max_label=LISTS.max_label
            ),
        ),
    )
    assert isinstance(pipeline, tfr.keras.pipeline.ModelFitPipeline)
    trained = pipeline.train_and_validate()
    assert trained.history == plain.history
    assert trained.best_epoch == plain.best_epoch
    pipeline.export_saved_model(trained.model, str(tmp_path / "saved"))
    signatures = tf.saved_model.load(str(tmp_path / "saved")).signatures
    own = {"serving_default", "masked", "rank", "elwc"}
    theirs = {tf.saved_model.PREDICT_METHOD_NAME, tf.saved_model.REGRESS_METHOD_NAME}
    assert {*signatures} == own | theirs


def test_a_strategy_by_tfrs_name(tfr, tmp_path):
    import tfr_ext.tfr

    pipeline = tfr_ext.tfr.RankingPipeline(
        ours(),
        tfr_ext.tfr.ListsDatasetBuilder(LISTS, LISTS, 8, 0),
        tfr_ext.tfr.RankingHparams(
            model_dir=str(tmp_path),
            num_epochs=1,
            learning_rate=0.01,
            loss="smoothi_loss",
            strategy="MirroredStrategy",
        ),
    )
    assert isinstance(pipeline._strategy, tf.distribute.MirroredStrategy)


@pytest.mark.parametrize(
    "name", ["automatic_reduce_lr", "use_weighted_metrics", "export_best_model"]
)
def test_what_our_pipeline_does_not_have_is_refused(tfr, tmp_path, name):
    import tfr_ext.tfr

    with pytest.raises(ValueError, match=f"`{name}` has no effect"):
        tfr_ext.tfr.RankingHparams(
            model_dir=str(tmp_path),
            num_epochs=1,
            learning_rate=0.01,
            loss="smoothi_loss",
            **{name: True},
        )


def test_categories_are_refused_by_name(tfr):
    import pandas

    import tfr_ext.tfr

    df = pandas.DataFrame({"q": [1, 1], "y": [1, 0], "brand": ["a", "b"], "x": [1, 2]})
    lists = data.RankingLists.from_dataframe(df, "y", "q", categories=["brand"])
    with pytest.raises(ValueError, match="take numbers only, .* are none: brand"):
        tfr_ext.tfr.ListsDatasetBuilder(lists, lists, batch_size=8, seed=1)
