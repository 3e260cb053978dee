"""Speed and memory of SoftSort-NDCG: forward and backward in a graph.

python benchmarks/soft_sort_speed.py [--runs N]

Ours and a peer take turns in one process; the ratio is the median of the ratios of a
turn, below 1 where ours is faster. Memory is what steps add to that of a process of
their own, at their peak.

Peers: `approx_ndcg` is TensorFlow Ranking's ApproxNDCGLoss. `dense` is the same loss
with the `[rank, list]` matrix of SoftSort's definition, and with the gradient of
TensorFlow's tape; `dense position` that of the position form.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import timing  # noqa: E402

from tfr_ext import losses, objectives  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip
import tensorflow_ranking as tfr  # noqa: E402  isort: skip

APPROX, DENSE = "approx_ndcg", "dense"
# (batch, list), form, cut-off, peer, and the ratio that must not be exceeded.
QUESTIONS: list[tuple[timing.Shape, str, int | None, str, float | None]] = [
    ((128, 40), "indicators", 10, APPROX, 1.0),
    ((32, 200), "indicators", 10, APPROX, 1.0),
    ((16, 1000), "indicators", 10, APPROX, 0.3),
    ((128, 40), "indicators", 10, DENSE, None),
    ((16, 1000), "indicators", 10, DENSE, None),
    ((128, 40), "indicators", None, DENSE, None),
    ((32, 200), "indicators", None, DENSE, None),
    ((16, 1000), "indicators", None, DENSE, None),
    ((32, 200), "position", None, DENSE, None),
    ((16, 1000), "position", None, DENSE, None),
    ((16, 1000), "position", 10, APPROX, None),
]


def dense(form: str, topn: int | None, temperature: float = 1.0) -> timing.Loss:
    """Returns SoftSort-NDCG as its definition is written, for full lists."""

    def loss(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        size = labels.shape[1]
        top = size if form == "position" else min(topn or size, size)
        ordered = tf.math.top_k(scores, top).values
        gaps = tf.abs(ordered[:, :, tf.newaxis] - scores[:, tf.newaxis, :])
        rows = tf.nn.softmax(-gaps / temperature)
        ranks = tf.range(1.0, top + 1)
        if form == "position":
            mask = tf.ones_like(labels, tf.bool)
            soft = tf.einsum("r,brj->bj", ranks, rows)
            ndcg = objectives.NDCG(topn, expected="gain")
            return 1 - tf.reduce_mean(ndcg.at_positions(soft, labels, mask))
        gains = tf.linalg.matvec(rows, 2**labels - 1)
        best = 2 ** tf.math.top_k(labels, top).values - 1
        discounts = 1 / tf.math.log1p(ranks)
        dcg, ideal = (tf.reduce_sum(x * discounts, axis=1) for x in (gains, best))
        return 1 - tf.reduce_mean(dcg / ideal)

    return loss


def make(name: str, form: str, topn: int | None) -> timing.Step:
    """Returns a loss by the name of a peer, or ours."""
    if name == APPROX:
        return timing.step(tfr.keras.losses.ApproxNDCGLoss())
    if name == DENSE:
        return timing.step(dense(form, topn))
    return timing.step(losses.SoftSortLoss(form=form, topn=topn))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, form, topn, batch, size = arguments.peak
        step = make(name, form, int(topn) or None)
        print(f"{timing.added_peak(step, (int(batch), int(size))):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'form':<12}{'cut-off':>8}  {'peer':<12}{'ours ms':>9}"
        f"{'peer ms':>9}{'ratio':>8}{'at most':>9}{'ours MB':>9}{'peer MB':>9}"
    )
    for shape, form, topn, peer, bound in QUESTIONS:
        ours, theirs = make("ours", form, topn), make(peer, form, topn)
        if peer == DENSE:  # the same loss: no ratio of different things
            timing.same(ours, theirs, shape)
        pair = timing.in_turn(ours, theirs, shape, arguments.runs)
        peaks = [
            timing.own_process("--peak", name, form, str(topn or 0), *map(str, shape))
            for name in ("ours", peer)
        ]
        print(
            f"{shape!s:<14}{form:<12}{topn or 'none':>8}  {peer:<12}{pair.ours:>9.2f}"
            f"{pair.peer:>9.2f}{pair.ratio:>8.2f}{bound or '':>9}{peaks[0]:>9}"
            f"{peaks[1]:>9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
