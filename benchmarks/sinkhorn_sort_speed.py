"""Speed and memory of the Sinkhorn sort: forward and backward in a graph.

python benchmarks/sinkhorn_sort_speed.py [--runs N]

Ours and a peer take turns in one process; the ratio is the median of the ratios of a
turn. Memory is what steps add to that of a process of their own, at their peak.

Peers: `logs` is Sinkhorn's iteration in the log domain, differentiated by the tape: the
same loss and gradient, which is checked. `approx_ndcg` is TensorFlow Ranking's
ApproxNDCGLoss.
"""

from __future__ import annotations

import argparse
import math

import tensorflow_ranking as tfr
import timing

import tfr_ext
from tfr_ext import objectives

import tensorflow as tf  # isort: skip

LOGS, APPROX = "logs", "approx_ndcg"
QUESTIONS: list[tuple[timing.Shape, str]] = [
    ((128, 40), LOGS),
    ((32, 200), LOGS),
    ((128, 40), APPROX),
    ((32, 200), APPROX),
    ((16, 1000), APPROX),
]


def logs(regularization: float = 0.01, num_iterations: int = 20) -> timing.Loss:
    """Returns the loss in the log domain, for full lists, as one would write it."""

    def soft_positions(scores: tf.Tensor) -> tf.Tensor:
        size = scores.shape[1]
        gaps = scores - tf.reduce_mean(scores, axis=1, keepdims=True)
        spread = tf.math.reduce_std(scores, axis=1, keepdims=True)
        x = tf.sigmoid(gaps / spread * (math.pi / math.sqrt(3)))
        y = tf.linspace(1.0, 0.0, size)
        log_kernel = tf.square(x[:, :, tf.newaxis] - y) / -regularization
        log_mass = -tf.math.log(float(size))
        log_u = tf.zeros_like(scores) + log_mass
        for _ in range(num_iterations):
            log_v = log_mass - tf.reduce_logsumexp(
                log_kernel + log_u[:, :, tf.newaxis], axis=1
            )
            log_u = log_mass - tf.reduce_logsumexp(
                log_kernel + log_v[:, tf.newaxis, :], axis=2
            )
        log_plan = log_kernel + log_u[:, :, tf.newaxis] + log_v[:, tf.newaxis, :]
        ranks = tf.range(1.0, size + 1)
        return size * tf.linalg.matvec(tf.exp(log_plan), ranks)

    def loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        ndcg = objectives.NDCG(expected="gain")
        mask = tf.ones_like(labels, tf.bool)
        soft = soft_positions(scores)
        return 1 - tf.reduce_mean(ndcg.at_positions(soft, labels, mask))

    return loss


def make(name: str) -> timing.Step:
    """Returns a loss by the name of a peer, or ours."""
    losses = {
        LOGS: logs,
        APPROX: tfr.keras.losses.ApproxNDCGLoss,
        "ours": tfr_ext.losses.SinkhornSortLoss,
    }
    return timing.step(losses[name]())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, batch, size = arguments.peak
        peak = timing.added_peak(make(name), (int(batch), int(size)))
        print(f"{peak:.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'peer':<12}{'ours ms':>9}{'peer ms':>9}{'ratio':>8}"
        f"{'ours MB':>9}{'peer MB':>9}"
    )
    for shape, peer in QUESTIONS:
        ours, theirs = make("ours"), make(peer)
        if peer == LOGS:  # the same loss: no ratio of different things
            timing.same(ours, theirs, shape)
        runs = max(3, arguments.runs // 5) if peer == LOGS else arguments.runs
        pair = timing.in_turn(ours, theirs, shape, runs)
        peaks = [
            timing.own_process("--peak", name, *map(str, shape))
            for name in ("ours", peer)
        ]
        print(
            f"{shape!s:<14}{peer:<12}{pair.ours:>9.2f}{pair.peer:>9.2f}"
            f"{pair.ratio:>8.3f}{peaks[0]:>9}{peaks[1]:>9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
