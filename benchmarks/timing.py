"""What the benchmarks of losses share: steps, times of two in turn, memory peaks."""

from __future__ import annotations

import dataclasses
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

import tfr_ext  # noqa: F401  (before tensorflow)

import tensorflow as tf  # isort: skip

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
Shape = tuple[int, int]
Step = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def step(loss: Loss, jit_compile: bool = False) -> Step:
    """Returns the forward and backward pass of a loss as a graph."""

    @tf.function(jit_compile=jit_compile)
    def both(labels: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(scores)
            value = loss(labels, scores)
        return value, tape.gradient(value, scores)

    return both


def lists(shape: Shape, num_grades: int = 5) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns labels and scores of full lists, the same at each call."""
    rng = np.random.default_rng(0)
    labels = tf.constant(rng.integers(0, num_grades, shape), tf.float32)
    return labels, tf.constant(rng.normal(size=shape), tf.float32)


def seconds(call: Callable[[], tuple[tf.Tensor, tf.Tensor]]) -> float:
    """Times one call, up to its gradient being there."""
    start = time.perf_counter()
    call()[1].numpy()
    return time.perf_counter() - start


@dataclasses.dataclass(frozen=True)
class Pair:
    """Times of two steps that took turns.

    Attributes:
        ours: median milliseconds of the first.
        peer: median milliseconds of the second.
        ratio: the median of the ratios within a turn.
    """

    ours: float
    peer: float
    ratio: float


def in_turn(
    ours: Step, peer: Step, shape: Shape, runs: int, num_grades: int = 5
) -> Pair:
    """Times two steps on the same lists, in turn."""
    labels, scores = lists(shape, num_grades)
    for both in (ours, peer):
        for _ in range(3):
            both(labels, scores)[1].numpy()
    pairs = [
        (seconds(lambda: ours(labels, scores)), seconds(lambda: peer(labels, scores)))
        for _ in range(runs)
    ]
    own, other = (1e3 * statistics.median(p[i] for p in pairs) for i in range(2))
    return Pair(own, other, statistics.median(a / b for a, b in pairs))


def same(ours: Step, peer: Step, shape: Shape, num_grades: int = 5) -> None:
    """Asserts that two steps give the same loss and gradient."""
    labels, scores = lists(shape, num_grades)
    (value, slopes), (peer_value, peer_slopes) = (
        both(labels, scores) for both in (ours, peer)
    )
    np.testing.assert_allclose(value, peer_value, rtol=1e-4)
    largest = np.abs(peer_slopes).max()
    np.testing.assert_allclose(slopes, peer_slopes, atol=1e-3 * largest)


def added_peak(
    both: Step, shape: Shape, num_grades: int = 5, least_seconds: float = 1.0
) -> float:
    """Returns how many MB more than before this process uses while it takes steps.

    To be told by a fresh process, which holds no memory for later; see `own_process`.
    """
    both(*lists((shape[0], 16), num_grades))[1].numpy()
    batch = lists(shape, num_grades)

    def steps() -> None:
        start = time.perf_counter()
        while time.perf_counter() - start < least_seconds:
            both(*batch)[1].numpy()

    return added_while(steps)


def added_while(work: Callable[[], None]) -> float:
    """Returns how many MB more than before this process uses during some work."""
    before = peak = resident()
    done = threading.Event()

    def watched() -> None:
        try:
            work()
        finally:
            done.set()

    thread = threading.Thread(target=watched)
    thread.start()
    while not done.wait(2e-4):
        peak = max(peak, resident())
    thread.join()
    return (peak - before) / 2**20


def resident() -> int:
    """Returns the bytes of memory that this process uses (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def own_process(*arguments: str) -> str:
    """Runs the calling script again with other arguments; returns what it prints."""
    done = subprocess.run(
        [sys.executable, sys.argv[0], *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()
