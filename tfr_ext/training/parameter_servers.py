"""Training with parameter servers: a chief, weight servers and workers.

The chief runs Keras's `fit`, makes the batches, validates and writes the files. A ps
holds weights. A worker takes a batch, reads the weights, and applies its gradients to
them, whatever the other workers do meanwhile.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfr_ext.core import which_keras
from tfr_ext.core.messages import say, warn
from tfr_ext.core.settings import given
from tfr_ext.core.system import clusters, termination
from tfr_ext.training.diagnosis import not_finite

NAME = "parameter_server"
# Steps that are handed out to each worker before it needs them.
_STEPS_AHEAD = 4
# Seconds from one look at the other processes to the next; looks that must fail before
# one counts as gone; and seconds after which the chief ends if no worker is left.
_EVERY, _LOOKS, _WITHOUT_WORKERS = 1.0, 3, 10.0


def own_cluster() -> clusters.Cluster:
    """Returns the cluster of TF_CONFIG, and checks that it has parameter servers."""
    if not which_keras.IS_KERAS_2:
        raise ValueError(
            f"{given('strategy', NAME)} needs Keras 2, since Keras 3 does not train "
            "with parameter servers. Install tf-keras and start Python with "
            "TF_USE_LEGACY_KERAS=1, or take `strategy='multi_worker'`."
        )
    cluster = clusters.from_environment()
    tasks = cluster.tasks if cluster else ()
    jobs = collections.Counter(task.job for task in tasks)
    if not cluster or jobs["chief"] != 1 or {*jobs} != {"chief", "worker", "ps"}:
        has = ", ".join(f"{count} {job}" for job, count in jobs.items()) or "not set"
        raise ValueError(
            f"{given('strategy', NAME)} needs a cluster of one chief, and of workers "
            f"and ps, in {clusters.VARIABLE}. It has: {has}."
        )
    return cluster


def _check_address(own: clusters.Task) -> None:
    """Checks that no other process has the address of this one, which is fatal."""
    if own.is_reachable():
        raise ValueError(
            f"Something else listens already at {own.address}, which TF_CONFIG gives "
            f"{own}. End it, or change the port in all processes."
        )


def strategy(cluster: clusters.Cluster) -> tf.distribute.Strategy:
    """Returns the strategy of the chief, once all other processes are there."""
    _check_address(cluster.own)
    for task in cluster.tasks:
        if task != cluster.own and not task.is_reachable():
            say(f"Waiting for {task} of TF_CONFIG at {task.address}.")
            while not task.is_reachable():
                time.sleep(_EVERY)
    return tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )


def serve(is_finished: Callable[[], bool]) -> None:
    """Serves the chief, as a worker or ps, until it exits.

    Raises `tf.errors.UnavailableError` if the chief has not finished the run then.
    """
    cluster = own_cluster()
    _check_address(cluster.own)
    jobs = {task.job: cluster.addresses(task.job) for task in cluster.tasks}
    server = tf.distribute.Server(
        tf.train.ClusterSpec(jobs),
        job_name=cluster.own.job,
        task_index=cluster.own.index,
        protocol="grpc",
    )
    (chief,) = cluster.of("chief")
    say(f"Serving as {cluster.own} of TF_CONFIG, until {chief} ends.")
    # A server that ends slowly would leave the chief waiting for its last answer.
    with termination.nothing_to_close():
        while not chief.is_reachable():
            time.sleep(_EVERY / 10)  # It may fail soon.
        while _is_there(chief):
            time.sleep(_EVERY)
    del server  # It served until here.
    if not is_finished():
        raise _gone(chief)


def _is_there(task: clusters.Task) -> bool:
    for _ in range(_LOOKS):
        if task.is_reachable():
            return True
        time.sleep(_EVERY)
    return False


def _gone(task: clusters.Task) -> tf.errors.UnavailableError:
    """Returns an error that names a process as TensorFlow does."""
    place = f"/job:{task.job}/task:{task.index}"
    message = f"{place}: nothing listens at {task.address}"
    return tf.errors.UnavailableError(None, None, message)


class Feed:
    """Batches that this process makes, each for the first free worker.

    Workers get them from a server of tf.data in this process. So the data need not be
    on their machines, and each batch is trained on once, in no fixed order. The server
    runs until the process ends.
    """

    def __init__(self, batches: tf.data.Dataset, host: str):
        """Starts the server; `host` is the name of this machine, as workers find it."""
        service = tf.data.experimental.service
        started: queue.Queue[str | Exception] = queue.Queue()

        def run() -> None:
            try:
                dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
                address = f"{host}:{dispatcher.target.rpartition(':')[2]}"
                server = service.WorkerServer(
                    service.WorkerConfig(address, worker_address=f"{host}:%port%")
                )
            except Exception as error:
                started.put(error)
                return
            started.put(address)
            # To stop it, TensorFlow would wait for the batch that is being made, and
            # meanwhile let no other thread run Python to make it.
            threading.Event().wait()
            del dispatcher, server

        threading.Thread(target=run, daemon=True).start()
        address = started.get()
        if isinstance(address, Exception):
            raise address
        self._target = f"grpc://{address}"
        self._id = service.register_dataset(self._target, batches, compression=None)
        self._batches = batches  # The server holds no Python.

    def dataset(self, name: str) -> tf.data.Dataset:
        """Returns the batches; all that read under one `name` share one pass."""
        return tf.data.experimental.service.from_dataset_id(
            "parallel_epochs",
            self._target,
            self._id,
            self._batches.element_spec,
            job_name=name,
        )


class Pace(tf.keras.callbacks.Callback):
    """Limits how many steps `fit` hands out ahead, and checks the loss.

    Otherwise it would hand out a whole epoch at once, and nothing could happen inside.
    """

    def __init__(self, strategy: tf.distribute.Strategy, num_workers: int):
        """Initialises the callback."""
        super().__init__()
        self._supports_tf_logs = True  # Keras takes no others for steps of workers.
        self._strategy = strategy
        self._most = _STEPS_AHEAD * num_workers
        self._epoch = 0
        self._handed_out: collections.deque[tuple[int, Any]] = collections.deque()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Forgets the steps of the epoch before."""
        self._epoch = epoch
        self._handed_out.clear()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Waits for an earlier step, and checks its loss."""
        self._handed_out.append((batch, logs))
        if len(self._handed_out) > self._most:
            done, result = self._handed_out.popleft()
            try:
                loss = result.fetch()["loss"]
            except tf.errors.CancelledError:
                join(self._strategy)  # It raises the error that cancelled the step.
                raise
            self._check(loss, f"about batch {done + 1}")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Checks the loss of the epoch."""
        self._check((logs or {}).get("loss", 0.0), "in one of the last batches")

    def _check(self, loss: float, where: str) -> None:
        if not math.isfinite(loss):
            raise not_finite.bad_loss(loss, self._epoch, where)


class ValidationHere(tf.keras.callbacks.Callback):
    """Validates in this process, on a copy of the model that the workers train.

    So the metrics are of all lists, each once, and of one state of the weights.
    """

    def __init__(self, build: Callable[[], tf.keras.Model], batches: tf.data.Dataset):
        """Takes a function that builds a compiled model like the one in training."""
        super().__init__()
        self._build = build
        self._batches = batches
        self._copy: tf.keras.Model | None = None
        # A strategy holds for the thread in which `fit` runs.
        self._aside = concurrent.futures.ThreadPoolExecutor(1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Validates, and adds the results to the logs."""
        weights = self.model.get_weights()
        found = self._aside.submit(self._evaluated, weights).result()
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in found.items()})

    def _evaluated(self, weights: list[np.ndarray]) -> dict[str, float]:
        if self._copy is None:
            self._copy = self._build()
        self._copy.set_weights(weights)
        return self._copy.evaluate(self._batches, verbose=0, return_dict=True)


def join(strategy: tf.distribute.Strategy) -> None:
    """Waits until the workers have done all steps handed out."""
    tf.distribute.coordinator.ClusterCoordinator(strategy).join()


@contextlib.contextmanager
def watched_workers(cluster: clusters.Cluster) -> Iterator[None]:
    """Reports lost and returning workers, and aborts when none is left.

    Then it raises `tf.errors.UnavailableError` in the middle of the work.
    """
    ended = threading.Event()

    def watch() -> None:
        gone: dict[clusters.Task, float] = {}
        while not ended.wait(_EVERY):
            for worker in cluster.of("worker"):
                if worker in gone and worker.is_reachable():
                    del gone[worker]
                    say(f"Worker {worker.index} of TF_CONFIG is back.")
                elif worker not in gone and not _is_there(worker):
                    gone[worker] = time.monotonic()
                    warn(
                        f"Worker {worker.index} of TF_CONFIG is gone. "
                        "Training goes on with the others."
                    )
            is_alone = len(gone) == len(cluster.of("worker"))
            if is_alone and time.monotonic() - max(gone.values()) > _WITHOUT_WORKERS:
                if interrupt(_gone(next(iter(gone)))):
                    return

    with termination.interruptible() as interrupt:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(watch,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
