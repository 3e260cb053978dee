"""Every loss with its defaults comes back from its configuration and from a file."""

import pytest
import tensorflow as tf

from tests.helpers import loads_saved_models
from tests.losses import every_key
from tfr_ext import losses

pytestmark = pytest.mark.stack_b


@pytest.mark.parametrize("key", every_key.KEYS)
def test_a_loss_with_its_defaults_comes_back(key):
    loss = losses.get(key)
    for again in (
        type(loss).from_config(loss.get_config()),
        tf.keras.losses.deserialize(tf.keras.losses.serialize(loss)),
    ):
        assert type(again) is type(loss)
        assert again.get_config() == loss.get_config()


@pytest.mark.parametrize(
    "suffix",
    [
        ".keras",
        pytest.param(".h5", marks=pytest.mark.grid),
        pytest.param("", marks=loads_saved_models),
    ],
)
def test_a_compiled_model_of_all_losses_comes_back(suffix, tmp_path):
    model = every_key.model(every_key.KEYS)
    model.compile("sgd", {key: losses.get(key) for key in every_key.KEYS})
    path = str(tmp_path / f"model{suffix}")
    model.save(path, **({} if suffix else {"save_format": "tf", "save_traces": False}))
    loaded = tf.keras.models.load_model(path).loss
    assert set(loaded) == set(every_key.KEYS)
    for key, again in loaded.items():
        expected = losses.get(key)
        assert type(again) is type(expected), key
        assert again.get_config() == expected.get_config(), key
