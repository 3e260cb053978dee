"""Rankers that other versions saved: what their files and pickles say of them."""

import copy
import io
import json
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tfr_ext
from tests.helpers import make_lists
from tfr_ext.core import which_keras
from tfr_ext.models import keras_file

LISTS = make_lists([3, 1, 4, 2, 5, 3, 2, 4], seed=1)
X = LISTS.features
DUMP = "Unrecognized keyword arguments\n\nconfig={'module': 'tfr_ext'}"
OTHERS = {
    "A": {"tfr_ext": "0.1.0", "tensorflow": "2.15.0", "keras": "2.15.1"},
    "B": {"tfr_ext": "0.1.0", "tensorflow": "2.20.0", "keras": "2.20.1"},
    "C": {"tfr_ext": "0.1.0", "tensorflow": "2.20.0", "keras": "3.9.9"},
    "later": {**keras_file.versions(), "tfr_ext": "9.9"},
}
# What `Ranker.load` and pickles may find instead; {} as a file may be damaged.
FOUND = {**OTHERS, "none": {}, "numbers": {"keras": 3, "tensorflow": None}}


@pytest.fixture(scope="module")
def ranker():
    tiny = {
        "model": "mlp",
        "hidden_sizes": (2,),
        "num_epochs": 1,
        "batch_normalization": False,
    }
    ranker = tfr_ext.Ranker("list_net_loss", **tiny)
    return ranker.fit(X, LISTS.labels, group=LISTS.lengths)


def refused(error, versions):
    """Checks that an error names the versions, saved and present, in one line."""
    text = str(error.value)
    for found in (versions, keras_file.versions()):
        for name in found.values():
            assert str(name) in text
    assert "\n" not in text and "config=" not in text
    assert isinstance(error.value.__cause__, Exception)


@pytest.mark.parametrize("name", FOUND)
def test_files_of_other_versions_are_told(ranker, name, tmp_path, monkeypatch):
    ranker.save(str(tmp_path))
    path = tmp_path / "ranker.json"
    about = json.loads(path.read_text())
    assert about["versions"] == keras_file.versions()
    path.write_text(json.dumps({**about, "versions": FOUND[name]}))
    # What Keras can load is loaded, whatever saved it.
    again = tfr_ext.Ranker.load(str(tmp_path))
    np.testing.assert_array_equal(again.predict(X), ranker.predict(X))

    def fail(*args, **kwargs):
        raise TypeError(DUMP)

    monkeypatch.setattr(tf.keras.models, "load_model", fail)
    with pytest.raises(ValueError, match=str(tmp_path)) as error:
        tfr_ext.Ranker.load(str(tmp_path))
    refused(error, FOUND[name])
    path.write_text(json.dumps(about))
    with pytest.raises(ValueError, match="cannot be loaded by Keras: Unrecognized"):
        tfr_ext.Ranker.load(str(tmp_path))


@pytest.mark.parametrize("name", FOUND)
def test_pickles_of_other_versions_are_told(ranker, name):
    state = ranker.__getstate__()
    assert state["_versions"] == keras_file.versions()
    again = tfr_ext.Ranker.__new__(tfr_ext.Ranker)
    again.__setstate__({**state, "_versions": FOUND[name]})
    np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
    assert vars(again).keys() == vars(ranker).keys()
    missing = {**state, "model_": b"cno_such_module\nModel\n."}
    with pytest.raises(ValueError, match="This pickled ranker was saved") as error:
        again.__setstate__({**missing, "_versions": FOUND[name]})
    refused(error, FOUND[name])
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        again.__setstate__(missing)


def test_versions_are_in_every_kind_of_pickle(ranker):
    joblib = pytest.importorskip("joblib")
    file = io.BytesIO()
    joblib.dump(ranker, file)
    for data in (file.getvalue(), pickle.dumps(ranker)):
        assert all(one.encode() in data for one in keras_file.versions().values())
    file.seek(0)
    for again in (joblib.load(file), copy.deepcopy(ranker)):
        np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
        assert vars(again).keys() == vars(ranker).keys()
    assert "_versions" not in tfr_ext.Ranker().__getstate__()


@pytest.mark.parametrize(
    ("name", "is_keras_2", "advice"),
    [
        ("A", False, "those versions, or fit"),
        ("B", False, "those versions, with tf-keras and TF_USE_LEGACY_KERAS=1, or"),
        ("B", True, "those versions, with tf-keras and TF_USE_LEGACY_KERAS=1, or"),
        ("C", True, "those versions, without TF_USE_LEGACY_KERAS, or fit"),
        ("C", False, "those versions, or fit"),
    ],
)
def test_the_advice_is_how_that_keras_is_chosen(name, is_keras_2, advice, monkeypatch):
    monkeypatch.setattr(which_keras, "IS_KERAS_2", is_keras_2)
    assert f"Load it with {advice}" in keras_file.other_versions(OTHERS[name])
