"""Which TensorFlow works, and what is said where none does."""

import os
import pathlib
import re
import runpy
import subprocess
import sys
from unittest import mock

import pytest

from tests.helpers import STACK_B
from tfr_ext import _stack, datasets

ROOT = pathlib.Path(__file__).parents[1]
GOOD_A = {
    "tensorflow": "2.15.1",
    "tf-keras": None,
    "keras": "2.15.0",
    "tensorflow-ranking": "0.5.5",
}
GOOD_B = {
    "tensorflow": "2.21.0",
    "tf-keras": "2.21.0",
    "keras": "3.15.1",
    "tensorflow-ranking": "0.5.5",
}


@pytest.mark.parametrize(
    ("versions", "legacy", "keras"),
    [
        (GOOD_A, False, None),
        ({**GOOD_A, "tf-keras": "2.15.1"}, True, None),
        (GOOD_B, False, None),
        (GOOD_B, True, "2"),
        ({**GOOD_B, "tensorflow": "2.16.2", "tf-keras": "2.16.0"}, True, None),
    ],
)
def test_what_works_is_let_through(versions, legacy, keras):
    assert _stack.problem(versions, legacy, keras) is None


@pytest.mark.parametrize(
    ("versions", "legacy", "keras", "commands"),
    [
        ({**GOOD_A, "tensorflow": None}, False, None, [_stack.INSTALL_A]),
        ({**GOOD_A, "tensorflow": "2.14.1"}, False, None, [_stack.INSTALL_B]),
        ({**GOOD_A, "tensorflow": "3.0.0"}, False, None, [_stack.INSTALL_B]),
        ({**GOOD_A, "keras": "3.1.0"}, False, None, ["pip install 'keras==2.15.*'"]),
        (GOOD_A, True, None, ["unset TF_USE_LEGACY_KERAS"]),
        (
            {**GOOD_A, "tensorflow-ranking": None},
            False,
            None,
            [_stack.INSTALL_A],
        ),
        ({**GOOD_B, "tf-keras": None}, False, None, ["pip install 'tf-keras==2.21.*'"]),
        (
            {**GOOD_B, "tf-keras": "2.16.0"},
            False,
            None,
            ["tf-keras 2.16.0 is installed", "pip install 'tf-keras==2.21.*'"],
        ),
        (GOOD_B, False, "3.15.1", ["export TF_USE_LEGACY_KERAS=1", "Keras 3.15.1"]),
        ({**GOOD_B, "tensorflow-ranking": None}, True, None, [_stack.INSTALL_B]),
    ],
)
def test_what_cannot_work_is_told_with_the_commands(versions, legacy, keras, commands):
    text = _stack.problem(versions, legacy, keras)
    for command in commands:
        assert command in text


def test_the_readme_has_the_commands():
    readme = (ROOT / "README.md").read_text().split("\n")
    for command in _stack.INSTALL_B.split("\n"):
        assert command.strip() in readme


def test_the_commands_install_what_the_package_requires():
    """What the package requires, what the message and the README say are one list."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    required = {
        re.match("[A-Za-z0-9_-]+", line)[0].replace("-", "_")
        for line in setup.call_args.kwargs["install_requires"]
    }
    with_tensorflow = {"absl_py", "numpy", "tensorflow_metadata"}
    for commands, by_others in (
        (_stack.INSTALL_A, {"absl_py"}),
        (_stack.INSTALL_B, with_tensorflow),
    ):
        named = {word.replace("-", "_") for word in re.findall("[A-Za-z_-]+", commands)}
        assert required - by_others <= named


@pytest.mark.parametrize("module", _stack.MODULES)
def test_what_is_missing_is_told_with_what_installs_it(module):
    done = python(f"import sys; sys.modules[{module!r}] = None\nimport tfr_ext")
    assert (
        f"ImportError: tfr_ext needs what is not installed: {module}. Run:\n    "
        + (_stack.INSTALL_B if STACK_B else _stack.INSTALL_A)
        in done.stderr
    )


def test_a_module_that_goes_missing_later_is_told_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "importlib_resources", None)
    with pytest.raises(ImportError, match="pip install .* importlib_resources"):
        datasets.names()


def python(code, **environment):
    """Runs code in a new process; None takes a variable out of the environment."""
    variables = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={k: v for k, v in variables.items() if v is not None},
    )


def test_an_import_changes_nothing_else():
    done = python(
        "import os, logging, random, sys\n"
        "before = dict(os.environ), logging.root.level, list(logging.root.handlers), "
        "random.getstate(), sys.excepthook\n"
        "import tfr_ext\n"
        "import tensorflow as tf\n"
        "environment = dict(os.environ)\n"
        f"if {STACK_B}: assert environment.pop('TF_USE_LEGACY_KERAS') == '1'\n"
        "assert before[0] == {k: v for k, v in environment.items() "
        "if k in before[0] or not k.startswith(('TF2_', 'TPU', 'KMP'))}, environment\n"
        "assert before[1:] == (logging.root.level, list(logging.root.handlers), "
        "random.getstate(), sys.excepthook)\n"
        f"assert hasattr(tf, 'estimator') != {STACK_B}\n"
        "import tensorflow_ranking\n"
        "assert tf.keras.losses.Loss in tensorflow_ranking.keras.losses"
        ".SoftmaxLoss.__mro__\n",
        TF_USE_LEGACY_KERAS=None,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(not STACK_B, reason="TensorFlow 2.15 has Keras 2 by itself")
def test_tensorflow_with_keras_3_is_refused():
    code = "import tensorflow as tf; tf.keras.layers; import tfr_ext"
    done = python(code, TF_USE_LEGACY_KERAS=None)
    assert done.returncode == 1
    assert "ImportError: TensorFlow was imported with Keras 3" in done.stderr
    assert "export TF_USE_LEGACY_KERAS=1" in done.stderr
    assert python(code, TF_USE_LEGACY_KERAS="1").returncode == 0


@pytest.mark.skipif(STACK_B, reason="on later TensorFlow the variable is right")
def test_a_variable_meant_for_later_tensorflow_is_told():
    done = python("import tfr_ext", TF_USE_LEGACY_KERAS="1")
    assert done.returncode == 1 and "unset TF_USE_LEGACY_KERAS" in done.stderr


def test_without_tfr_the_commands_are_told():
    done = python(
        "from importlib import metadata\n"
        "version = metadata.version\n"
        "def without(name):\n"
        "    if name == 'tensorflow-ranking': raise metadata.PackageNotFoundError\n"
        "    return version(name)\n"
        "metadata.version = without\n"
        "import tfr_ext\n"
    )
    assert done.returncode == 1
    assert "ImportError: TensorFlow Ranking is not installed" in done.stderr
    assert "pip install" in done.stderr
