"""What all tests share."""

import importlib.util
import os
import pathlib
import subprocess

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
# Files and folders whose modules import packages that stack C does not have.
NEEDED = {
    "tensorflow_datasets": ["tests/datasets", "tfr_ext/datasets"],
    "tensorflow_ranking": [
        *("tests/data/elwc", "tfr_ext/data/elwc"),
        *("tests/losses/tfr", "tfr_ext/losses/tfr", "tfr_ext/losses/__init__.py"),
        *("tests/losses/test_laws.py", "tests/pipelines", "tests/tfr", "tfr_ext/tfr"),
    ],
    "lightgbm": ["tests/gbm", "tests/pipelines/test_train_gbm.py", "tfr_ext/gbm"],
    "catboost": ["tests/gbm"],
    "tensorflow_serving": ["tests/serving/loopback/grpc_front.py"],
}
LEFT_OUT = {
    package: paths
    for package, paths in NEEDED.items()
    if importlib.util.find_spec(package) is None
}


def pytest_configure(config):
    """Leaves out what cannot be imported."""
    paths = [str(ROOT / path) for paths in LEFT_OUT.values() for path in paths]
    config.option.ignore = [*(config.option.ignore or ()), *paths]


def pytest_report_header():
    """Says which tests are left out, and why."""
    return [
        f"left out, as {package} is not installed: {', '.join(paths)}"
        for package, paths in LEFT_OUT.items()
    ]


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
    """Marks as grid the cases that `first_case` leaves to `make test-all`."""
    begun = set()
    for item in items:
        marker = item.get_closest_marker("first_case")
        if marker is None or item.get_closest_marker("grid"):
            continue
        values = item.callspec.params if hasattr(item, "callspec") else {}
        test = (
            item.path,
            item.originalname,
            *(str(values.get(x)) for x in marker.args),
        )
        if test in begun:
            item.add_marker(pytest.mark.grid)
        begun.add(test)
