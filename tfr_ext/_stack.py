"""Which TensorFlow and Keras are in use, and how TensorFlow Ranking is imported.

Stack A is TensorFlow 2.15, the version that TensorFlow Ranking (TFR) 0.5.5 requires.
Stack B is TensorFlow 2.16 or later with `tf_keras`, the Keras 2 that TFR is written
for, and with TF_USE_LEGACY_KERAS set. Stack C is TensorFlow 2.16 or later as pip
installs it, with Keras 3: everything runs there except what needs TFR.

`import tfr_ext` leaves TensorFlow as it is. `import tfr_ext.tfr` makes TFR importable:
on stack B it sets TF_USE_LEGACY_KERAS, which TensorFlow reads repeatedly, and while TFR
is imported it gives TensorFlow the `tf.estimator` that TFR's modules refer to.
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

INSTALL = "pip install 'tensorflow>=2.15,<2.22'"
INSTALL_A = (
    "pip install 'tensorflow==2.15.1' 'tensorflow-ranking==0.5.5' 'numpy<2' "
    "matplotlib scipy"
)
INSTALL_B = (
    "pip install tensorflow==2.21.0 tf-keras==2.21.0 tensorboard matplotlib scipy six\n"
    "    pip install --no-deps tensorflow-ranking==0.5.5 tensorflow-serving-api==2.21.0"
)
_EITHER = (
    f"Either, with Python 3.10 or 3.11:\n    {INSTALL_A}\n"
    f"or, with Python 3.10 to 3.13:\n    {INSTALL_B}"
)

# What TensorFlow Ranking imports without requiring it.
MODULES = ("six", "tensorflow_serving")

# The module that makes TensorFlow Ranking importable.
_FOR_TFR = "tfr_ext.tfr"


def prepare() -> None:
    """Checks that this package works with the installed TensorFlow.

    If this package is imported by `import tfr_ext.tfr`, TensorFlow Ranking is imported
    first, as it would be too late to choose Keras 2 afterwards.

    Raises:
        ImportError: If that cannot work; the message has the commands that fix it.
    """
    if _is_imported_for(_FOR_TFR):
        import_tfr()
        return
    text = problem(_versions(), _is_legacy())
    if text:
        raise ImportError(text)


def import_tfr() -> None:
    """Imports TensorFlow Ranking, after TensorFlow with Keras 2.

    Raises:
        ImportError: If that cannot work; the message has the commands that fix it.
    """
    if "tensorflow_ranking" in sys.modules:
        return
    text = tfr_problem()
    if text:
        raise ImportError(text)
    if _release(_versions()["tensorflow"]) == (2, 15):
        importlib.import_module("tensorflow_ranking")
        return
    os.environ[LEGACY_KERAS] = "1"
    import tensorflow as tf

    with _estimator_stub(tf):
        importlib.import_module("tensorflow_ranking")


def problem(versions: dict[str, str | None], legacy_keras: bool) -> str | None:
    """Returns why this package cannot work with what is installed, and how to fix it.

    Args:
        versions: versions of 'tensorflow', 'tf-keras', 'keras' and
            'tensorflow-ranking'; None if a package is not installed, '' if it is on the
            path but has no version.
        legacy_keras: whether TF_USE_LEGACY_KERAS is set.

    Returns:
        The text of the error, or None if there is none.
    """
    tensorflow = versions["tensorflow"]
    if tensorflow is None:
        return f"TensorFlow is not installed. Run:\n    {INSTALL}"
    release = _release(tensorflow)
    if release < (2, 15):
        return f"TensorFlow {tensorflow} is too old. Run:\n    {INSTALL}"
    if release >= (3,):
        return f"TensorFlow {tensorflow} is not supported. Run:\n    {INSTALL}"
    wanted = ".".join(map(str, release))
    lacks_tf_keras = not _fits(versions["tf-keras"], release)
    if release == (2, 15):
        if not _fits(versions["keras"], release):
            return (
                f"TensorFlow {tensorflow} needs Keras {wanted}, and keras "
                f"{versions['keras']} is installed. Run:\n"
                f"    pip install 'keras=={wanted}.*'"
            )
        if legacy_keras and lacks_tf_keras:
            return (
                f"{LEGACY_KERAS} is set, but TensorFlow {tensorflow} has Keras 2 by "
                f"itself. Run:\n    unset {LEGACY_KERAS}"
            )
    elif legacy_keras and lacks_tf_keras:
        return (
            f"{LEGACY_KERAS} is set: TensorFlow {tensorflow} then needs tf-keras "
            f"{wanted}, and {_state(versions['tf-keras'])}. Run:\n"
            f"    pip install 'tf-keras=={wanted}.*'\n"
            f"or, to use Keras 3:\n    unset {LEGACY_KERAS}"
        )
    return None


def tfr_problem(
    versions: dict[str, str | None] | None = None, keras: str | None = None
) -> str | None:
    """Returns why TensorFlow Ranking cannot be imported, and how to fix it.

    Args:
        versions: see `problem`; by default the versions of the installed packages.
        keras: version of the Keras that an already imported TensorFlow uses, if any;
            found out by default.

    Returns:
        The text of the error, or None if there is none.
    """
    if versions is None:
        versions = _versions()
        keras = _keras_in_use(versions["tensorflow"])
    tensorflow = versions["tensorflow"]
    release = _release(tensorflow)
    text = problem(versions, _is_legacy() and release == (2, 15))
    if text:
        return text
    if versions["tensorflow-ranking"] is None:
        return f"TensorFlow Ranking is not installed. {_EITHER}"
    if release > (2, 15):
        wanted = ".".join(map(str, release))
        if not _fits(versions["tf-keras"], release):
            return (
                f"TensorFlow {tensorflow} needs tf-keras {wanted} for TensorFlow "
                f"Ranking, and {_state(versions['tf-keras'])}. Run:\n"
                f"    pip install 'tf-keras=={wanted}.*'"
            )
        if keras is not None and _release(keras) >= (3,):
            return (
                f"TensorFlow was imported with Keras {keras}, and TensorFlow Ranking "
                f"needs Keras 2. Restart Python and first of all `import "
                f"{_FOR_TFR}`, or start it after:\n    export {LEGACY_KERAS}=1"
            )
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        return (
            "TensorFlow Ranking needs modules that are not installed: "
            f"{', '.join(missing)}. "
            f"Run:\n    {INSTALL_A if release == (2, 15) else INSTALL_B}"
        )
    return None


def _is_imported_for(name: str) -> bool:
    """Returns whether this package is being imported by the import of a submodule."""
    frame = sys._getframe(1)
    while frame is not None:
        code, known = frame.f_code, frame.f_locals
        if code.co_name == "_find_and_load" and known.get("name") == name:
            return "importlib" in code.co_filename
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _is_legacy() -> bool:
    return os.environ.get(LEGACY_KERAS) in ("1", "true", "True")


def _state(version: str | None) -> str:
    return f"tf-keras {version} is installed" if version else "it is not installed"


def _versions() -> dict[str, str | None]:
    return {
        "tensorflow": _tensorflow_version(),
        **{name: _version(name) for name in ("tf-keras", "keras")},
        "tensorflow-ranking": _version("tensorflow-ranking"),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        found = importlib.util.find_spec(package.replace("-", "_"))
        return None if found is None else ""


def _tensorflow_version() -> str | None:
    if "tensorflow" not in sys.modules:
        names = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm")
        versions = [*map(_version, names)]
        if any(versions) or versions[0] is None:
            return next(filter(None, versions), None)
    return importlib.import_module("tensorflow").__version__


def _fits(version: str | None, release: tuple[int, ...]) -> bool:
    """Returns whether a package is installed, and of the given release if known."""
    return version is not None and _release(version) in ((), release)


def _release(version: str | None) -> tuple[int, ...]:
    """Returns the major and minor number, or () if there is no version."""
    return tuple(map(int, re.findall("[0-9]+", version or "")[:2]))


def _keras_in_use(tensorflow: str | None) -> str | None:
    """Returns the version of Keras that an imported TensorFlow is bound to."""
    tf = sys.modules.get("tensorflow")
    if tf is None or _release(tensorflow) < (2, 16):
        return None
    # Keras 2 has no version attribute there.
    return getattr(tf.keras, "__version__", "2")


@contextlib.contextmanager
def _estimator_stub(tf: Any) -> Iterator[None]:
    """Temporarily gives TensorFlow the parts of `tf.estimator` that TFR imports."""
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
