"""Files of models: what would run code, or is damaged, does not reach Keras."""

import copy
import json
import pathlib
import re
import shutil
import sys
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from tests.files import damages
from tests.helpers import make_lists
from tfr_ext import data, models
from tfr_ext.models import keras_file

CODE = "hostile_module"
CLASS = {"class_name": "C", "module": CODE, "config": {}, "registered_name": None}
FUNCTION = {
    **{"class_name": "function", "module": CODE, "config": "f"},
    "registered_name": "f",
}
LAMBDA = {
    "name": "run",
    "function": FUNCTION,
    "function_type": "function",
    "arguments": {},
}
WRITER = {"name": "write", "function": "io.write_file"}


def builtin(name, config, module="keras.layers", **more):
    """A class of Keras as a configuration has it."""
    named = {"class_name": name, "module": module, "registered_name": None}
    return {**named, "config": config, **more}


def layer(config, name="Dense"):
    """The first layer of a class in the configuration of a model."""
    layers = config["config"]["layers"]
    return next(one for one in layers if one["class_name"].endswith(name))


def with_layer(added):
    def change(config):
        added_layer = {"name": "added", "inbound_nodes": [], **added}
        config["config"]["layers"].append(added_layer)

    return change


def with_value(key, value):
    return lambda config: layer(config)["config"].update({key: value})


def in_place_of(config, found):
    config.clear()
    config.update(found)


# Changes of the configuration that name code, or what calls it.
CONFIGS = {
    "the whole model": lambda config: in_place_of(config, CLASS),
    "a function": lambda config: in_place_of(config, FUNCTION),
    "a layer": with_layer(CLASS),
    "a layer of the standard library": with_layer({**CLASS, "module": "antigravity"}),
    "a layer without module": with_layer({"class_name": "Lambda", "config": LAMBDA}),
    "a registered name of ours": with_layer(
        {**CLASS, "class_name": "Lambda", "registered_name": "tfr_ext>CompactItems"}
    ),
    "the input": lambda config: layer(config, "InputLayer").update(CLASS),
    "an activation": with_value("activation", FUNCTION),
    "an initializer": with_value("kernel_initializer", CLASS),
    "what is in an initializer": with_value(
        "kernel_initializer", builtin("Constant", {"value": [[CLASS]]})
    ),
    "build_config": lambda config: layer(config).update(build_config={"x": CLASS}),
    "compile_config of a layer": lambda config: layer(config).update(
        compile_config={"optimizer": CLASS}
    ),
    "the arguments of a call": lambda config: layer(config)["inbound_nodes"].append(
        {"args": [CLASS], "kwargs": {}}
    ),
    "a lambda": with_value(
        "activation",
        {"class_name": "__lambda__", "config": {"value": ["", None, None]}},
    ),
    "a Lambda of a function": with_layer(builtin("Lambda", LAMBDA)),
    "a type": with_layer(
        {**CLASS, "class_name": "__typespec__", "spec_name": "C", "config": []}
    ),
    "a part of TensorFlow": with_layer(
        builtin("TFOpLambda", WRITER, "keras.src.layers.core.tf_op_layer")
    ),
    "a method": with_layer(
        builtin("ClassMethod", {"cls_symbol": "io.gfile"}, "keras.layers")
    ),
    "a SavedModel": with_layer(builtin("TFSMLayer", {"filepath": "/tmp/model"})),
    "a file of a vocabulary": with_layer(
        builtin("StringLookup", {"vocabulary": "/etc/passwd"})
    ),
    "a switch of Keras": with_value(
        "activation",
        builtin("function", "enable_unsafe_deserialization", "keras.config"),
    ),
    "what a module of Keras imports": with_value(
        "activation", builtin("function", "os.system", "keras.src.saving.saving_lib")
    ),
    "a module of ours": with_value(
        "activation", builtin("function", "write_atomically", "tfr_ext.core.files")
    ),
    "a name that is a list": with_layer({**CLASS, "class_name": ["C"]}),
}


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, content, compression=zipfile.ZIP_STORED, twice=()):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name in [*content, *twice]:
            archive.writestr(name, content[name])


def with_config(text):
    return lambda path: write(path, {**members(path), "config.json": text})


def as_hdf5(path):
    inputs = tf.keras.Input([3])
    run = tf.keras.layers.Lambda(
        lambda x: __import__("hostile_module").f(x), output_shape=(3,)
    )
    tf.keras.Model(inputs, run(inputs)).save(f"{path}.h5")
    shutil.move(f"{path}.h5", path)
    path.with_name("ran").unlink(missing_ok=True)
    sys.modules.pop(CODE, None)


def as_saved_model(path):
    path.unlink()
    tf.saved_model.save(tf.Module(), str(path))


# Files that are not what `save` writes.
FILES = {
    "HDF5": as_hdf5,
    "a SavedModel": as_saved_model,
    "nothing": lambda path: path.unlink(),
    "an empty file": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("a model"),
    "an empty zip": lambda path: write(path, {}),
    **{
        f"a zip without {name}": lambda path, name=name: write(
            path, {k: v for k, v in members(path).items() if k != name}
        )
        for name in ("config.json", "metadata.json", "model.weights.h5")
    },
    "a zip with more": lambda path: write(
        path, {**members(path), "assets/../../x": b"x"}
    ),
    "two configurations": lambda path: write(
        path, members(path), twice=["config.json"]
    ),
    "a compressed zip": lambda path: write(
        path, {**members(path), "config.json": b" " * 10**7}, zipfile.ZIP_DEFLATED
    ),
    "no JSON": with_config("{"),
    "no UTF-8": with_config(b'{"class_name": "\xff"}'),
    "brackets": with_config("[" * 10**5),
    "an empty list": with_config("[]"),
    "a string": with_config('"os.system"'),
    "null": with_config("null"),
    "an object of nothing": with_config("{}"),
    "no model": with_config(json.dumps(builtin("Dense", {"units": 1}))),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model of ours, and its file."""
    model = models.model_builder(3, models.MLPScorer([2])).build()
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(str(path))
    return model, path


@pytest.fixture
def path(saved, tmp_path, monkeypatch):
    """A copy of the file, beside a module that leaves a file when it is imported."""
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: pass\ndef f(x): return x\n"
    (tmp_path / f"{CODE}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield pathlib.Path(shutil.copy(saved[1], tmp_path))
    assert not (tmp_path / "ran").exists()
    assert not {CODE, "antigravity"} & {*sys.modules}


def refused(path):
    """The message of the error about a file."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        keras_file.load(str(path))
    return str(error.value)


def test_a_whole_file_is_loaded(saved, path):
    lists = make_lists([3, 2])
    found = [data.score_lists(x, lists, 2) for x in (saved[0], keras_file.load(path))]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_configuration_runs_code(name, path, monkeypatch):
    content = members(path)
    config = json.loads(content["config.json"])
    CONFIGS[name](copied := copy.deepcopy(config))
    assert copied != config
    write(path, {**content, "config.json": json.dumps(copied)})
    monkeypatch.setattr(tf.keras.models, "load_model", pytest.fail)
    assert "its config.json names" in refused(path)


def test_how_it_was_compiled_is_not_read(saved, path):
    content = members(path)
    config = {**json.loads(content["config.json"]), "compile_config": {"loss": CLASS}}
    write(path, {**content, "config.json": json.dumps(config)})
    assert len(keras_file.load(str(path)).layers) == len(saved[0].layers)


@pytest.mark.parametrize("name", FILES)
def test_only_zip_files_of_keras_are_read(name, path):
    FILES[name](path)
    refused(path)


def test_registered_classes_are_loaded(path):
    @tf.keras.utils.register_keras_serializable("test_keras_file")
    class Doubled(tf.keras.layers.Layer):
        def call(self, inputs):
            return 2 * inputs

    inputs = tf.keras.Input([3])
    outputs = Doubled()(tf.keras.layers.Dense(1)(inputs))
    models.RankingModel(inputs, outputs).save(str(path))
    assert [type(x) for x in keras_file.load(str(path)).layers][-1] is Doubled


def test_what_is_damaged_does_not_reach_keras(saved, path, monkeypatch):
    """Or has the bytes that were saved: a date, for one, is not checked."""
    whole, content, reached, number = path.read_bytes(), members(path), [], 0

    def load_model(path, **_):
        reached.append(members(path))
        return saved[0]

    monkeypatch.setattr(tf.keras.models, "load_model", load_model)
    for damaged in damages(whole, 250):
        path.write_bytes(damaged)
        before = len(reached)
        try:
            keras_file.load(str(path))
        except ValueError as error:
            assert str(error).startswith(f"{path}: expected a model in Keras's zip")
            assert len(reached) == before
        number += 1
    assert all(found == content for found in reached)
    assert len(reached) < number / 4
