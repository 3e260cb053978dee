"""Which TensorFlow works, and what is said where none does."""

import os
import pathlib
import re
import runpy
import subprocess
import sys
from unittest import mock

import pytest

from tests.helpers import STACK_B, needs_tfr
from tfr_ext import _stack, datasets

pytestmark = pytest.mark.stack_b

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


GOOD_C = {**GOOD_B, "tf-keras": None, "tensorflow-ranking": None}
LATER = {**GOOD_B, "tensorflow": "2.16.2", "tf-keras": "2.16.0"}


@pytest.mark.parametrize(
    ("versions", "legacy"),
    [
        (GOOD_A, False),
        ({**GOOD_A, "tf-keras": "2.15.1"}, True),
        ({**GOOD_A, "tensorflow-ranking": None}, False),
        (GOOD_B, False),
        (GOOD_B, True),
        (GOOD_C, False),
        (LATER, True),
        # On the path, without what pip leaves.
        ({**GOOD_A, "keras": ""}, False),
        ({**GOOD_B, "tf-keras": ""}, True),
    ],
)
def test_what_works_is_let_through(versions, legacy):
    assert _stack.problem(versions, legacy) is None


@pytest.mark.parametrize(
    ("versions", "legacy", "commands"),
    [
        ({**GOOD_A, "tensorflow": None}, False, [_stack.INSTALL]),
        ({**GOOD_A, "tensorflow": "2.14.1"}, False, [_stack.INSTALL]),
        ({**GOOD_A, "tensorflow": "3.0.0"}, False, [_stack.INSTALL]),
        ({**GOOD_A, "keras": "3.1.0"}, False, ["pip install 'keras==2.15.*'"]),
        (GOOD_A, True, ["unset TF_USE_LEGACY_KERAS"]),
        (GOOD_C, True, ["unset TF_USE_LEGACY_KERAS", "tf-keras==2.21.*"]),
    ],
)
def test_what_cannot_work_is_told_with_the_commands(versions, legacy, commands):
    text = _stack.problem(versions, legacy)
    for command in commands:
        assert command in text


@pytest.mark.parametrize(
    ("versions", "keras"), [(GOOD_A, None), (GOOD_B, None), (GOOD_B, "2"), (LATER, "2")]
)
def test_tfr_works_where_it_can(versions, keras, monkeypatch):
    monkeypatch.setattr(_stack, "MODULES", ())  # They are there, or are not.
    monkeypatch.delenv(_stack.LEGACY_KERAS, raising=False)
    assert _stack.tfr_problem(versions, keras) is None


@pytest.mark.parametrize(
    ("versions", "keras", "commands"),
    [
        ({**GOOD_A, "tensorflow": "2.14.1"}, None, [_stack.INSTALL]),
        (
            {**GOOD_A, "tensorflow-ranking": None},
            None,
            [_stack.INSTALL_A, _stack.INSTALL_B],
        ),
        (GOOD_C, None, [_stack.INSTALL_A, _stack.INSTALL_B]),
        ({**GOOD_B, "tf-keras": None}, None, ["pip install 'tf-keras==2.21.*'"]),
        (
            {**GOOD_B, "tf-keras": "2.16.0"},
            None,
            ["tf-keras 2.16.0 is installed", "pip install 'tf-keras==2.21.*'"],
        ),
        (
            GOOD_B,
            "3.15.1",
            ["export TF_USE_LEGACY_KERAS=1", "Keras 3.15.1", "`import tfr_ext.tfr`"],
        ),
    ],
)
def test_why_tfr_cannot_be_imported_is_told(versions, keras, commands, monkeypatch):
    monkeypatch.delenv(_stack.LEGACY_KERAS, raising=False)
    text = _stack.tfr_problem(versions, keras)
    for command in commands:
        assert command in text


def test_the_guide_has_the_commands():
    page = (ROOT / "docs" / "guide" / "installing.md").read_text().split("\n")
    for command in _stack.INSTALL_B.split("\n"):
        assert command.strip() in page


def test_every_extra_is_documented_and_those_of_the_stacks_exist():
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    extras = {*setup.call_args.kwargs["extras_require"]}
    page = (ROOT / "docs" / "guide" / "installing.md").read_text()
    assert extras == {*re.findall(r"^\| `(\w+)`", page.replace("`, `", "`\n| `"), re.M)}
    stacks = re.findall(
        r"^EXTRAS_[ABC] := ?(.*)", (ROOT / "Makefile").read_text(), re.M
    )
    assert len(stacks) == 3
    assert {name for names in stacks for name in names.split(",") if name} <= extras


def test_the_commands_install_what_the_package_requires():
    """What the package requires, what the message and the guide say are one list."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    required = {
        re.match("[A-Za-z0-9_-]+", line)[0].replace("-", "_")
        for line in setup.call_args.kwargs["install_requires"]
    }
    with_tensorflow = {"absl_py", "numpy", "tensorflow_metadata"}
    for commands, by_others in (
        (_stack.INSTALL_A, {"absl_py", "tensorboard"}),
        (_stack.INSTALL_B, with_tensorflow),
    ):
        named = {word.replace("-", "_") for word in re.findall("[A-Za-z_-]+", commands)}
        assert required - by_others <= named


@needs_tfr
@pytest.mark.parametrize("module", _stack.MODULES)
def test_what_is_missing_is_told_with_what_installs_it(module):
    done = python(f"import sys; sys.modules[{module!r}] = None\nimport tfr_ext.tfr")
    assert (
        "ImportError: TensorFlow Ranking needs modules that are not installed: "
        f"{module}. Run:\n    "
        + (_stack.INSTALL_B if STACK_B else _stack.INSTALL_A)
        in done.stderr
    )


def test_a_module_that_goes_missing_later_is_told_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "importlib_resources", None)
    with pytest.raises(ImportError, match="pip install .* importlib_resources"):
        datasets.names()


# What `import tfr_ext` alone may need; each of the others is imported when used.
OPTIONAL = (
    "tensorflow_ranking",
    "tensorflow_datasets",
    "tensorflow_serving",
    "pandas",
    "pyarrow",
    "sklearn",
    "importlib_resources",
    "tensorboard",
)
UNCHANGED = """
import os, logging, random, sys
def state():
    return (
        {k: v for k, v in os.environ.items() if k[:3] not in ("TF2", "TPU", "KMP")},
        logging.root.level, list(logging.root.handlers), random.getstate(),
        sys.excepthook, list(sys.path), list(sys.meta_path),
    )
import tensorflow as tf
tf.keras.layers
before = state()
"""


def test_an_import_changes_nothing_and_needs_little():
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in OPTIONAL)
    done = python(
        f"{UNCHANGED}{blocked}"
        "import tfr_ext\n"
        "loss = tfr_ext.losses.get('smoothi_loss')\n"
        "assert isinstance(loss, tf.keras.losses.Loss)\n"
        "assert isinstance(tfr_ext.metrics.RankingMetric(), tf.keras.metrics.Metric)\n"
        "assert 0 < float(loss([[1., 0.]], [[0., 1.]])) < 1\n"
        "assert state() == before\n"
        "assert not hasattr(tf, 'estimator') or tf.__version__ < '2.16'\n",
        TF_USE_LEGACY_KERAS=None,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_tfr
@pytest.mark.parametrize("first", ["import tfr_ext.tfr", "from tfr_ext.tfr import *"])
def test_tfr_is_importable_after_tfr_ext_tfr(first):
    done = python(
        f"{first}\n"
        "import tensorflow as tf, tensorflow_ranking as tfr, tfr_ext\n"
        "assert tf.keras.losses.Loss in tfr.keras.losses.SoftmaxLoss.__mro__\n"
        "assert tf.keras.losses.Loss in tfr_ext.losses.SmoothILoss.__mro__\n"
        "loss = tfr_ext.losses.get('softmax_loss')\n"
        "assert isinstance(loss, tfr.keras.losses.SoftmaxLoss)\n"
        f"assert hasattr(tf, 'estimator') != {STACK_B}\n",
        TF_USE_LEGACY_KERAS=None,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@needs_tfr
@pytest.mark.skipif(not STACK_B, reason="TensorFlow 2.15 has Keras 2 by itself")
@pytest.mark.parametrize(
    "before", ["import tfr_ext", "import tensorflow as tf; tf.keras.layers"]
)
def test_after_keras_3_tfr_asks_for_a_restart(before):
    done = python(f"{before}\nimport tfr_ext.tfr", TF_USE_LEGACY_KERAS=None)
    assert done.returncode == 1
    assert "ImportError: TensorFlow was imported with Keras 3" in done.stderr
    assert "first of all `import tfr_ext.tfr`" in done.stderr
    code = f"{before}\nimport tfr_ext.tfr"
    assert python(code, TF_USE_LEGACY_KERAS="1").returncode == 0


def test_without_tfr_its_losses_are_told():
    done = python(
        "import sys, importlib.util as util\n"
        "from importlib import metadata\n"
        "version, spec = metadata.version, util.find_spec\n"
        "def without(name):\n"
        "    if name == 'tensorflow-ranking': raise metadata.PackageNotFoundError\n"
        "    return version(name)\n"
        "metadata.version = without\n"
        "util.find_spec = lambda x: None if x == 'tensorflow_ranking' else spec(x)\n"
        "import tfr_ext\n"
        "assert 'softmax_loss' not in tfr_ext.losses.keys()\n"
        "tfr_ext.losses.get('softmax_loss')\n"
    )
    assert done.returncode == 1
    assert "ImportError: TensorFlow Ranking is not installed" in done.stderr
    assert _stack.INSTALL_A in done.stderr


@pytest.mark.skipif(STACK_B, reason="on later TensorFlow the variable is right")
def test_a_variable_meant_for_later_tensorflow_is_told():
    done = python("import tfr_ext", TF_USE_LEGACY_KERAS="1")
    assert done.returncode == 1 and "unset TF_USE_LEGACY_KERAS" in done.stderr


def python(code, **environment):
    """Runs code in a new process; None takes a variable out of the environment."""
    variables = {**os.environ, "PYTHONPATH": os.getcwd(), **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={k: v for k, v in variables.items() if v is not None},
    )
