"""How fast is SmoothI against TFR's ApproxNDCG, and against its authors' form?

    python benchmarks/smoothi_speed.py [--runs N]

Forward and backward pass of each loss in a `tf.function`, on random lists, measured in
turn in one process; the ratio is the median of the ratios within a turn, below 1 where
ours is faster. Peers:

*   `approx_ndcg`: `tfr.keras.losses.ApproxNDCGLoss()`;
*   `unrolled`: the form of the SmoothI authors' own code, written in TensorFlow: for
    each rank one softmax and one update of the product, differentiated by the tape.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import timing  # noqa: E402

from tfr_ext import losses  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip
import tensorflow_ranking as tfr  # noqa: E402  isort: skip

# (batch, list), cut-off, peer, and the ratio that must not be exceeded.
QUESTIONS = [
    ((128, 40), 10, "approx_ndcg", 0.8),
    ((32, 200), 10, "approx_ndcg", 0.9),
    ((16, 1000), 10, "approx_ndcg", 0.1),
    ((32, 200), None, "unrolled", 0.6),
    ((128, 40), 10, "unrolled", None),
    ((16, 1000), 10, "unrolled", None),
    ((32, 200), None, "approx_ndcg", 1.4),
    ((16, 1000), None, "approx_ndcg", None),
]
LONG: timing.Shape = (1, 20_000)
MOST_MEGABYTES = 600


def unrolled(topn: int | None, delta: float = 0.1) -> timing.Loss:
    """Returns SmoothI-NDCG as its authors' code computes it, for full lists."""

    def loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        depth = min(topn or labels.shape[1], labels.shape[1])
        scores -= tf.reduce_min(scores, axis=1, keepdims=True)
        product = tf.ones_like(scores)
        relevance = []
        for _ in range(depth):
            row = tf.nn.softmax(scores * tf.stop_gradient(product))
            relevance.append(tf.reduce_sum(row * labels, axis=1))
            product *= 1 - row - delta
        discount = 1 / tf.math.log1p(tf.range(1.0, depth + 1))
        dcg = tf.reduce_sum((2 ** tf.stack(relevance, 1) - 1) * discount, axis=1)
        best = tf.math.top_k(labels, depth).values
        ideal = tf.reduce_sum((2**best - 1) * discount, axis=1)
        return 1 - tf.reduce_mean(dcg / ideal)

    return loss


def measure(
    shape: tuple[int, int], topn: int | None, peer: str, runs: int
) -> timing.Pair:
    """Times SmoothI and a peer."""
    ours = timing.step(losses.SmoothILoss(topn=topn))
    if peer == "approx_ndcg":
        theirs = timing.step(tfr.keras.losses.ApproxNDCGLoss())
    else:
        theirs = timing.step(unrolled(topn))
        timing.same(ours, theirs, shape, num_grades=3)  # no ratio of different things
    return timing.in_turn(ours, theirs, shape, runs, num_grades=3)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="timed pairs of runs")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(f"{timing.added_peak(timing.step(losses.SmoothILoss()), LONG):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'cut-off':>8}  {'peer':<12}"
        f"{'ours ms':>9}{'peer ms':>9}{'ratio':>8}{'at most':>9}"
    )
    for shape, topn, peer, bound in QUESTIONS:
        result = measure(shape, topn, peer, arguments.runs)
        print(
            f"{shape!s:<14}{topn or 'none':>8}  {peer:<12}{result.ours:>9.2f}"
            f"{result.peer:>9.2f}{result.ratio:>8.2f}{bound if bound else '':>9}",
            flush=True,
        )
    peak = timing.own_process("--peak")
    print(
        f"one list of {LONG[1]:,} items without a cut-off: {peak} MB (at most "
        f"{MOST_MEGABYTES})"
    )


if __name__ == "__main__":
    main()
