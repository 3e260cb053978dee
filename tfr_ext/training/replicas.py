"""Distribution strategies, the choice of GPUs, and agreement among workers."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence

import tensorflow as tf

from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.training import parameter_servers


def strategy(name: str) -> tf.distribute.Strategy | None:
    """Returns a strategy by the name that it has in `TrainingConfig.strategy`.

    A strategy for several workers must be created before TensorFlow does anything.
    """
    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    if name == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == parameter_servers.NAME:
        return parameter_servers.strategy(parameter_servers.own_cluster())
    return None


def serves(name: str) -> bool:
    """Returns whether this process serves one that trains, as a worker or ps."""
    if name != parameter_servers.NAME:
        return False
    return parameter_servers.own_cluster().own.job != "chief"


def has_servers(strategy: tf.distribute.Strategy | None) -> bool:
    """Returns whether workers train independently, with weights on servers."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def join(strategy: tf.distribute.Strategy | None) -> None:
    """Waits until everything that was handed out to workers is done."""
    if has_servers(strategy):
        parameter_servers.join(strategy)


def files_of(strategy: tf.distribute.Strategy | None) -> tf.train.CheckpointOptions:
    """Returns how checkpoints are written: by this process alone."""
    # Otherwise each server would write its weights to a disk of its own.
    device = "/job:chief" if has_servers(strategy) else None
    return tf.train.CheckpointOptions(experimental_io_device=device)


def scope(strategy: tf.distribute.Strategy | None) -> contextlib.AbstractContextManager:
    """Returns the scope of a strategy, which does nothing if there is none."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def is_writer(strategy: tf.distribute.Strategy | None) -> bool:
    """Returns whether this process writes the files.

    Among several workers it is the chief, or worker 0 if there is no chief.
    """
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return True
    chief = "chief" in resolver.cluster_spec().jobs
    return (resolver.task_type, resolver.task_id) == (
        "chief" if chief else "worker",
        0,
    )


class Agreement:
    """Makes all workers act after the same batch.

    `every` is the number of batches from one question to the next.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None):
        """Initialises the agreement."""
        # Where there are servers, the chief decides for all.
        has_workers = getattr(strategy, "cluster_resolver", None) and not (
            has_servers(strategy)
        )
        self._strategy = strategy if has_workers else None
        # A question takes a message to each worker and back.
        self.every = 16 if has_workers else 1

    def any(self, mine: bool) -> bool:
        """Returns whether any worker says True; all must call it together."""
        if self._strategy is None:
            return mine
        return bool(self._total(tf.constant(float(mine))) > 0)

    @tf.function(reduce_retracing=True)
    def _total(self, mine: tf.Tensor) -> tf.Tensor:
        def sum_over_all() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            # A tensor of this replica, which so has a device.
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(mine))

        assert self._strategy is not None
        found = self._strategy.run(sum_over_all)
        return self._strategy.experimental_local_results(found)[0]


def wait_for_all(strategy: tf.distribute.Strategy | None) -> None:
    """Waits until all workers are here; returns at once if there is only one."""
    Agreement(strategy).any(False)


_HIDES = "CUDA_VISIBLE_DEVICES"
# Files that the driver makes, on Linux and in the Linux of Windows.
_DRIVER = ("/dev/nvidia[0-9]*", "/dev/dxg")


def choose_gpus(
    numbers: Sequence[int], memory_growth: bool, are_wanted: bool = False
) -> None:
    """Makes TensorFlow use some GPUs, before it uses any device.

    The numbers are from 0, as TensorFlow and `nvidia-smi` list GPUs; none stand for
    all. With `memory_growth`, TensorFlow takes memory as it needs it, rather than all
    at once. With `are_wanted`, a message says why it sees no GPU, if it sees none.
    """
    seen = tf.config.list_physical_devices("GPU")
    formatted = f"`gpus={','.join(map(str, numbers))}`"
    if not seen:
        if numbers:
            raise ValueError(f"{formatted}: TensorFlow sees no GPU, as {why_none()}.")
        if are_wanted or _has_driver():
            say(f"TensorFlow sees no GPU, as {why_none()}. Training uses the CPU.")
        return
    missing = [number for number in numbers if number >= len(seen)]
    if missing:
        raise ValueError(
            f"{formatted}: there is no GPU {missing[0]}. TensorFlow sees {len(seen)}, "
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
            f"{formatted} and {given('memory_growth', memory_growth)} can be set only "
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
