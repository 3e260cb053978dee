"""Which GPUs a process trains on, and why it may see none."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

import tensorflow as tf

from tfr_ext.core.settings import given
from tfr_ext.core.telling import say

_HIDES = "CUDA_VISIBLE_DEVICES"
# Files that the driver makes, on Linux and in the Linux of Windows.
_DRIVER = ("/dev/nvidia[0-9]*", "/dev/dxg")


def choose_gpus(
    numbers: Sequence[int], memory_growth: bool, are_wanted: bool = False
) -> None:
    """Makes TensorFlow use some GPUs, before it uses any device.

    Args:
        numbers: their numbers, from 0, as TensorFlow and `nvidia-smi` list them; all if
            there are none.
        memory_growth: whether TensorFlow takes memory as it needs it, rather than all
            at once.
        are_wanted: whether to say why it sees no GPU, if it sees none.

    Raises:
        ValueError: if it does not see one of them, or it is too late to choose.
    """
    seen = tf.config.list_physical_devices("GPU")
    told = f"`gpus={','.join(map(str, numbers))}`"
    if not seen:
        if numbers:
            raise ValueError(f"{told}: TensorFlow sees no GPU, as {why_none()}.")
        if are_wanted or _has_driver():
            say(f"TensorFlow sees no GPU, as {why_none()}. Training uses the CPU.")
        return
    missing = [number for number in numbers if number >= len(seen)]
    if missing:
        raise ValueError(
            f"{told}: there is no GPU {missing[0]}. TensorFlow sees {len(seen)}, "
            f"numbered from 0{_hidden()}."
        )
    chosen = [seen[number] for number in numbers] or seen
    try:
        if tf.config.get_visible_devices("GPU") != chosen:
            tf.config.set_visible_devices(chosen, "GPU")
        for gpu in chosen:
            if tf.config.experimental.get_memory_growth(gpu) != memory_growth:
                tf.config.experimental.set_memory_growth(gpu, memory_growth)
    except RuntimeError as error:
        raise ValueError(
            f"{told} and {given('memory_growth', memory_growth)} can be set only "
            "before TensorFlow uses a device in this process."
        ) from error


def why_none() -> str:
    """Returns why TensorFlow sees no GPU, as the end of a sentence."""
    if not (tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm()):
        return (
            "this TensorFlow is built for CPUs only; "
            "pip install 'tensorflow[and-cuda]' gives one for GPUs"
        )
    if os.environ.get(_HIDES, "0").strip() in ("", "-1", "none", "NoDevFiles"):
        return f"the environment variable {_HIDES}={os.environ[_HIDES]!r} hides all"
    if not _has_driver():
        return "there is no driver: /dev has no nvidia0"
    built = tf.sysconfig.get_build_info()
    wanted = " and ".join(
        f"{name} {built[key]}"
        for name, key in (("CUDA", "cuda_version"), ("cuDNN", "cudnn_version"))
        if key in built
    )
    return (
        f"the libraries that it needs, {wanted or 'of CUDA'}, cannot be loaded; "
        "pip install 'tensorflow[and-cuda]' brings them, and TF_CPP_MIN_LOG_LEVEL=0 "
        "shows which are missing"
    )


def _has_driver() -> bool:
    return any(glob.glob(pattern) for pattern in _DRIVER)


def _hidden() -> str:
    given = os.environ.get(_HIDES)
    return "" if given is None else f" ({_HIDES}={given} may hide others)"
