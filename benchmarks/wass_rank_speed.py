"""Speed and memory of WassRank: forward and backward in a graph, 20 iterations.

python benchmarks/wass_rank_speed.py [--runs N]

Ours and a peer take turns in one process; the ratio is the median of the ratios of a
turn. Memory is what steps add to that of a process of their own, at their peak.

Peers: `dense` is Sinkhorn's iteration in the log domain with the whole cost matrix, and
the gradient by the dual, as ours. `approx_ndcg` is TensorFlow Ranking's ApproxNDCGLoss.
"""

from __future__ import annotations

import argparse

import tensorflow_ranking as tfr
import timing

import tfr_ext
from tfr_ext.transport import labels_to_scores, sinkhorn

import tensorflow as tf  # isort: skip

DENSE, APPROX = "dense", "approx_ndcg"
# (batch, list), distinct labels, peer, and the ratio that must not be exceeded.
QUESTIONS: list[tuple[timing.Shape, int, str, float | None]] = [
    ((16, 1000), 5, DENSE, 0.03),
    ((4, 3000), 5, DENSE, 0.015),
    ((4, 3000), 32, DENSE, None),
    ((128, 40), 5, APPROX, 6),
    ((32, 200), 5, APPROX, 3.5),
    ((16, 1000), 5, APPROX, 0.65),
]


def dense(num_iterations: int = 20, regularization: float = 0.1) -> timing.Loss:
    """Returns WassRank with the whole kernel, for full lists."""

    @tf.custom_gradient
    def distance(labels: tf.Tensor, scores: tf.Tensor) -> tuple:
        mask = tf.ones_like(labels, tf.bool)
        kernel = -labels_to_scores.RankingCost().matrix(labels) / regularization
        log_prediction = sinkhorn.log_softmax(scores, mask)
        log_target = sinkhorn.log_softmax(labels, mask)
        log_u, log_v = sinkhorn.sinkhorn(
            log_target,
            log_prediction,
            lambda x: tf.reduce_logsumexp(kernel + x[:, tf.newaxis, :], axis=2),
            mask,
            num_iterations,
        )
        prediction = tf.exp(log_prediction)
        value = tf.reduce_sum(tf.exp(log_target) * log_v + prediction * log_u, axis=1)

        def gradient(upstream: tf.Tensor) -> tuple:
            slopes = prediction * log_u
            slopes -= prediction * tf.reduce_sum(slopes, axis=1, keepdims=True)
            return None, regularization * slopes * upstream[:, tf.newaxis]

        return regularization * value, gradient

    return lambda labels, scores: tf.reduce_mean(distance(labels, scores))


def make(name: str) -> timing.Step:
    """Returns a loss by the name of a peer, or ours."""
    losses = {
        DENSE: dense,
        APPROX: tfr.keras.losses.ApproxNDCGLoss,
        "ours": tfr_ext.losses.WassRankLoss,
    }
    return timing.step(losses[name]())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, grades, batch, size = arguments.peak
        peak = timing.added_peak(make(name), (int(batch), int(size)), int(grades))
        print(f"{peak:.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'labels':>7}  {'peer':<12}{'ours ms':>9}{'peer ms':>9}"
        f"{'ratio':>8}{'at most':>9}{'ours MB':>9}{'peer MB':>9}"
    )
    for shape, grades, peer, bound in QUESTIONS:
        ours, theirs = make("ours"), make(peer)
        if peer == DENSE:  # the same loss: no ratio of different things
            timing.same(ours, theirs, shape, grades)
        runs = max(3, arguments.runs // 10) if peer == DENSE else arguments.runs
        pair = timing.in_turn(ours, theirs, shape, runs, grades)
        peaks = [
            timing.own_process("--peak", name, str(grades), *map(str, shape))
            for name in ("ours", peer)
        ]
        print(
            f"{shape!s:<14}{grades:>7}  {peer:<12}{pair.ours:>9.2f}{pair.peer:>9.2f}"
            f"{pair.ratio:>8.3f}{bound or '':>9}{peaks[0]:>9}{peaks[1]:>9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
