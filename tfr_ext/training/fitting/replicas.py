"""Replicas of a model on several devices or machines."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from tfr_ext.training.fitting import parameter_servers


def strategy(name: str) -> tf.distribute.Strategy | None:
    """Returns a strategy by the name that it has in `TrainingConfig.strategy`.

    A strategy for several workers must be created before TensorFlow does anything.

    Args:
        name: 'none', 'mirrored', 'multi_worker' or 'parameter_server'; of the last, the
            chief's.

    Raises:
        ValueError: if TF_CONFIG does not describe such a cluster.
    """
    if name == "mirrored":
        return tf.distribute.MirroredStrategy()
    if name == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == parameter_servers.NAME:
        return parameter_servers.strategy(parameter_servers.own_cluster())
    return None


def serves(name: str) -> bool:
    """Tells whether this process is to serve one that trains, as a worker or ps.

    Args:
        name: as in `strategy`.

    Raises:
        ValueError: if TF_CONFIG does not describe such a cluster.
    """
    if name != parameter_servers.NAME:
        return False
    return parameter_servers.own_cluster().own.job != "chief"


def has_servers(strategy: tf.distribute.Strategy | None) -> bool:
    """Tells whether workers train, each for itself, with weights on servers."""
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
    """Tells whether this process writes the files.

    Among several workers it is the chief, or worker 0 if there is no chief.

    Args:
        strategy: the strategy under which it trains.
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
    """Lets all workers do something after the same batch.

    Attributes:
        every: number of batches from one question to the next.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None):
        """Initialises the agreement.

        Args:
            strategy: the strategy under which they train.
        """
        # Where there are servers, the chief decides for all.
        has_workers = getattr(strategy, "cluster_resolver", None) and not (
            has_servers(strategy)
        )
        self._strategy = strategy if has_workers else None
        # A question takes a message to each worker and back.
        self.every = 16 if has_workers else 1

    def any(self, mine: bool) -> bool:
        """Returns whether any worker says True; all must call it together.

        Args:
            mine: what this one says.
        """
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
    """Waits until all workers are here; returns at once if there is only one.

    Args:
        strategy: the strategy under which they train.
    """
    Agreement(strategy).any(False)
