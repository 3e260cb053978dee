"""The one place that knows which TensorFlow this is, and makes TFR importable on it.

Stack A is TensorFlow 2.15 as TensorFlow Ranking (TFR) 0.5.5 pins it. Stack B is
TensorFlow from 2.16 on with `tf_keras`, the Keras 2 that TFR is written for. TFR runs
there too, but for two things: `tf.keras` must be `tf_keras`, and `tf.estimator`, which
TFR's estimator modules name and TensorFlow no longer has, must exist.

TensorFlow reads the environment variable TF_USE_LEGACY_KERAS again and again, so on
stack B it stays set. `tf.estimator` is there only while TFR is imported. Nothing else
changes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from importlib import metadata
from typing import Any

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"

INSTALL_A = (
    "pip install 'tensorflow==2.15.1' 'tensorflow-ranking==0.5.5' 'numpy<2' "
    "tensorflow-datasets==4.9.10 'tensorflow-metadata<1.18' importlib_resources "
    "matplotlib scipy"
)
INSTALL_B = (
    "pip install tensorflow==2.21.0 tf-keras==2.21.0 tensorflow-datasets==4.9.10 "
    "importlib_resources tensorboard matplotlib scipy six\n"
    "    pip install --no-deps tensorflow-ranking==0.5.5 tensorflow-serving-api==2.21.0"
)
_EITHER = (
    f"Either, with Python 3.9 to 3.11:\n    {INSTALL_A}\n"
    f"or, with Python 3.10 to 3.13:\n    {INSTALL_B}"
)

# What this package imports besides, soon or late, and what TensorFlow Ranking (six) and
# TensorFlow Datasets (importlib_resources) import and do not require.
MODULES = (
    "importlib_resources",
    "matplotlib",
    "scipy",
    "six",
    "tensorboard",
    "tensorflow_datasets",
    "tensorflow_serving",
)


def problem(
    versions: dict[str, str | None], legacy_keras: bool, keras: str | None
) -> str | None:
    """Says why TFR cannot work with what is installed, and what mends it.

    Args:
        versions: versions of 'tensorflow', 'tf-keras', 'keras' and
            'tensorflow-ranking', None where a package is not installed.
        legacy_keras: whether TF_USE_LEGACY_KERAS is set.
        keras: version of the Keras that an imported TensorFlow uses already, if any.

    Returns:
        The text of the error, or None if all is well.
    """
    tensorflow = versions["tensorflow"]
    if tensorflow is None:
        return f"TensorFlow is not installed. {_EITHER}"
    release = _release(tensorflow)
    if release < (2, 15):
        return f"TensorFlow {tensorflow} is too old. {_EITHER}"
    if release >= (3,):
        return f"TensorFlow {tensorflow} is not supported. {_EITHER}"
    wanted = ".".join(map(str, release))
    if release == (2, 15):
        if _release(versions["keras"]) != release:
            return (
                f"TensorFlow {tensorflow} needs Keras {wanted}, and keras "
                f"{versions['keras']} is installed. Run:\n"
                f"    pip install 'keras=={wanted}.*'"
            )
        if legacy_keras and _release(versions["tf-keras"]) != release:
            return (
                f"{LEGACY_KERAS} is set, but TensorFlow {tensorflow} has Keras 2 by "
                f"itself. Run:\n    unset {LEGACY_KERAS}"
            )
    else:
        if _release(versions["tf-keras"]) != release:
            found = versions["tf-keras"]
            state = f"tf-keras {found} is installed" if found else "it is not installed"
            return (
                f"TensorFlow {tensorflow} needs tf-keras {wanted} for TensorFlow "
                f"Ranking, and {state}. Run:\n    pip install 'tf-keras=={wanted}.*'"
            )
        if keras is not None and _release(keras) >= (3,):
            return (
                f"TensorFlow was imported with Keras {keras}, and TensorFlow Ranking "
                "needs Keras 2. Import tfr_ext before tensorflow, or start Python "
                f"with:\n    export {LEGACY_KERAS}=1"
            )
    install = INSTALL_A if release == (2, 15) else INSTALL_B
    if versions["tensorflow-ranking"] is None:
        return f"TensorFlow Ranking is not installed. Run:\n    {install}"
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        return (
            f"tfr_ext needs what is not installed: {', '.join(missing)}. Run:\n"
            f"    {install}"
        )
    return None


def prepare() -> None:
    """Imports TensorFlow with Keras 2, and TensorFlow Ranking.

    Raises:
        ImportError: if that cannot work, with the commands that mend it.
    """
    tensorflow = _tensorflow_version()
    text = problem(
        {
            "tensorflow": tensorflow,
            "tf-keras": _version("tf-keras"),
            "keras": _version("keras"),
            "tensorflow-ranking": _version("tensorflow-ranking"),
        },
        legacy_keras=os.environ.get(LEGACY_KERAS) in ("1", "true", "True"),
        keras=_keras_in_use(tensorflow),
    )
    if text:
        raise ImportError(text)
    if _release(tensorflow) == (2, 15):
        importlib.import_module("tensorflow_ranking")
        return
    os.environ[LEGACY_KERAS] = "1"
    import tensorflow as tf

    with _estimator_stub(tf):
        importlib.import_module("tensorflow_ranking")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _tensorflow_version() -> str | None:
    names = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm")
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"].__version__
    return next(filter(None, map(_version, names)), None)


def _release(version: str | None) -> tuple[int, ...]:
    """Returns major and minor number, () if there is no version."""
    return tuple(map(int, re.findall("[0-9]+", version or "")[:2]))


def _keras_in_use(tensorflow: str | None) -> str | None:
    """Returns the version of Keras that an imported TensorFlow is bound to."""
    tf = sys.modules.get("tensorflow")
    if tf is None or _release(tensorflow) < (2, 16):
        return None
    # Keras 2 does not tell its version there.
    return getattr(tf.keras, "__version__", "2")


@contextlib.contextmanager
def _estimator_stub(tf: Any) -> Iterator[None]:
    """Gives TensorFlow, for a while, what of `tf.estimator` TFR's imports touch."""
    stub = types.ModuleType("tensorflow.estimator")
    stub.ModeKeys = types.SimpleNamespace(  # type: ignore[attr-defined]
        TRAIN="train", EVAL="eval", PREDICT="infer"
    )
    stub.export = types.SimpleNamespace(  # type: ignore[attr-defined]
        ServingInputReceiver=namedtuple(
            "ServingInputReceiver",
            ["features", "receiver_tensors", "receiver_tensors_alternatives"],
            defaults=[None],
        )
    )
    homes = [tf, tf.compat.v1]
    lacking = [home for home in homes if not hasattr(home, "estimator")]
    for home in lacking:
        home.estimator = stub
    try:
        yield
    finally:
        for home in lacking:
            del home.estimator
