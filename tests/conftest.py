"""What all tests share."""

import doctest
import gc
import importlib.util
import os
import pathlib
import subprocess
import sys
import zlib

import hypothesis
import numpy as np
import pytest
import tensorflow as tf

# One collection worker a core: TensorFlow itself must not take them all.
tf.config.threading.set_intra_op_parallelism_threads(1)

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

ROOT = pathlib.Path(__file__).parents[1]
# Stack C lacks some of them.
PACKAGES = ("tensorflow_ranking", "tensorflow_datasets", "lightgbm")


class WithoutPackages:
    """Skips the examples of docstrings that need a package which is not there."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        try:
            return (yield)
        except doctest.UnexpectedException as error:
            if not isinstance(error.exc_info[1], ImportError):
                raise
            pytest.skip(str(error.exc_info[1]).partition(".")[0])


def pytest_configure(config):
    if not all(map(importlib.util.find_spec, PACKAGES)):
        config.option.doctest_ignore_import_errors = True
        config.pluginmanager.register(WithoutPackages())


def pytest_itemcollected(item):
    """Gives a test the marks that the `__init__` of its folders has as `pytestmark`."""
    for node in item.listchain():
        if isinstance(node, pytest.Package):
            name = ".".join(node.path.relative_to(ROOT).parts)
            for mark in getattr(sys.modules.get(name), "pytestmark", []):
                item.add_marker(mark)


def pytest_collection_finish():
    """What is imported stays, and models are many small objects: fewer searches."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """The directory that TFR_EXT_DATA names, with MQ2008/Fold1/train.txt and so on.

    One that has a script `make_folds.sh` to lay out such a directory will do as well.
    """
    path = os.environ.get("TFR_EXT_DATA")
    if not path:
        pytest.skip("TFR_EXT_DATA names no directory with MQ2008/Fold1/train.txt")
    path = pathlib.Path(path)
    script = path / "make_folds.sh"
    if script.exists():
        path = tmp_path_factory.mktemp("data")
        subprocess.run(["bash", script, path], check=True)
    return path


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import tfr_ext

    doctest_namespace.update(np=np, tf=tf, tfr_ext=tfr_ext)


@pytest.fixture(autouse=True)
def _precision_is_left_as_it_was():
    """A policy of mixed precision changes every model that is made after it."""
    yield
    policy = tf.keras.mixed_precision.global_policy().name
    if policy != "float32":  # One test is at fault, not all that follow.
        tf.keras.mixed_precision.set_global_policy("float32")
    assert policy == "float32"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks what `first_case` leaves to the grid, and the part that is now due."""
    begun = set()
    due = _number_of_commits() % 20
    for item in items:
        marker = item.get_closest_marker("first_case")
        if marker is not None and not item.get_closest_marker("grid"):
            values = item.callspec.params if hasattr(item, "callspec") else {}
            chosen = (str(values.get(x)) for x in marker.args)
            test = (item.path, item.originalname, *chosen)
            if test in begun:
                item.add_marker(pytest.mark.grid)
            begun.add(test)
        if item.get_closest_marker("grid"):
            if zlib.crc32(item.nodeid.encode()) % 20 == due:
                item.add_marker(pytest.mark.due)


def _number_of_commits():
    """The number of HEAD's commits; 0 without a repository and in a shallow clone."""
    shallow = _git("rev-parse", "--is-shallow-repository")
    return int(_git("rev-list", "--count", "HEAD")) if shallow == "false" else 0


def _git(*arguments):
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""
