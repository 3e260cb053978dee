"""Speed and memory of PiRank-NDCG: forward and backward in a graph.

python benchmarks/pirank_speed.py [--runs N]

Ours and a peer take turns in one process; the ratio is the median of the ratios of a
turn. Memory is what steps add to that of a process of their own, at their peak.

Peers: `approx_ndcg` is TensorFlow Ranking's ApproxNDCGLoss. `difference matrix` is the
same loss with the `[list, list]` matrix of the score differences, as Eq. 12 has it, and
with the gradient of TensorFlow's tape. `ours` is our own loss without a tree. Ours has
its defaults, straight-through too.
"""

from __future__ import annotations

import argparse

import tensorflow_ranking as tfr
import timing

import tfr_ext

import tensorflow as tf  # isort: skip

APPROX, MATRIX, DEPTH_1 = "approx_ndcg", "difference matrix", "ours"
# (batch, list), depth, peer, and the ratio that must not be exceeded.
QUESTIONS: list[tuple[timing.Shape, int, str, float | None]] = [
    ((128, 40), 1, APPROX, 0.7),
    ((32, 200), 1, APPROX, 0.6),
    ((16, 1000), 1, APPROX, 0.15),
    ((4, 3375), 1, MATRIX, 0.06),
    ((4, 3375), 2, DEPTH_1, None),
    ((4, 3375), 3, DEPTH_1, None),
]
LONG: timing.Shape = (1, 100_000)
# Of one list of 100,000 items: seconds and MB.
MOST_SECONDS, MOST_MEGABYTES = 0.2, 1024


def difference_matrix(topn: int = 10, temperature: float = 5.0) -> timing.Loss:
    """Returns PiRank-NDCG as Eq. 12 is written, for full lists."""

    def loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        size = labels.shape[1]
        top = min(topn, size)
        differences = tf.abs(scores[:, :, tf.newaxis] - scores[:, tf.newaxis, :])
        sums = tf.reduce_sum(differences, axis=2)
        factors = size + 1 - 2 * tf.range(1.0, top + 1)
        logits = factors[:, tf.newaxis] * scores[:, tf.newaxis, :]
        rows = tf.nn.softmax((logits - sums[:, tf.newaxis, :]) / temperature)
        gains = tf.linalg.matvec(rows, 2**labels - 1)
        discounts = 1 / tf.math.log1p(tf.range(1.0, top + 1))
        best = 2 ** tf.math.top_k(labels, top).values - 1
        dcg, ideal = (tf.reduce_sum(x * discounts, axis=1) for x in (gains, best))
        return 1 - tf.reduce_mean(dcg / ideal)

    return loss


def make(name: str, depth: int = 1) -> timing.Step:
    """Returns a loss by the name of a peer, or ours at a depth."""
    if name == APPROX:
        return timing.step(tfr.keras.losses.ApproxNDCGLoss())
    if name == MATRIX:
        return timing.step(difference_matrix())
    straight_through = name == "ours"
    return timing.step(
        tfr_ext.losses.PiRankNDCGLoss(depth=depth, straight_through=straight_through)
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, depth, batch, size = arguments.peak
        shape = int(batch), int(size)
        print(f"{timing.added_peak(make(name, int(depth)), shape):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'depth':>6}  {'peer':<18}{'ours ms':>9}{'peer ms':>9}"
        f"{'ratio':>8}{'at most':>9}{'ours MB':>9}{'peer MB':>9}"
    )
    for shape, depth, peer, bound in QUESTIONS:
        ours, theirs = make("ours", depth), make(peer)
        if peer == MATRIX:  # the same loss: no ratio of different things
            timing.same(make("ours, relaxed"), theirs, shape)
        pair = timing.in_turn(ours, theirs, shape, arguments.runs)
        peaks = [
            timing.own_process("--peak", name, str(height), *map(str, shape))
            for name, height in (("ours", depth), (peer, 1))
        ]
        print(
            f"{shape!s:<14}{depth:>6}  {peer:<18}{pair.ours:>9.2f}{pair.peer:>9.2f}"
            f"{pair.ratio:>8.2f}{bound or '':>9}{peaks[0]:>9}{peaks[1]:>9}",
            flush=True,
        )
    both = make("ours")
    pair = timing.in_turn(both, both, LONG, max(5, arguments.runs // 10))
    peak = timing.own_process("--peak", "ours", "1", *map(str, LONG))
    print(
        f"one list of {LONG[1]:,} items: {pair.ours / 1e3:.3f} s (at most "
        f"{MOST_SECONDS}), {peak} MB (at most {MOST_MEGABYTES})"
    )


if __name__ == "__main__":
    main()
