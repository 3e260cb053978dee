"""How fast are the pairwise KL losses against TFR's PairwiseLogisticLoss?

    python benchmarks/kl_speed.py [--runs N]

Forward and backward pass of each loss in a `tf.function`, on random lists, measured in
turn in one process; the ratio is the median of the ratios within a turn, below 1 where
ours is faster. `unknown` are ours in a graph that does not know the shapes. Memory is
what steps add to that of a process of their own, at their peak.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import timing  # noqa: E402

from tfr_ext import losses  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

# (batch, list), and the ratio that must not be exceeded.
SHAPES = [((32, 200), 1.2), ((16, 1000), 1.0), ((128, 40), None)]
PEER = "pairwise_logistic_loss"
KEYS = ["pairwise_kl_binomial_loss", "pairwise_kl_gaussian_loss"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        key, batch, size = arguments.peak
        step = timing.step(losses.get(key))
        print(f"{timing.added_peak(step, (int(batch), int(size)), num_grades=3):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'loss':<27}{'shapes':<9}{'ours ms':>9}{'peer ms':>9}"
        f"{'ratio':>8}{'at most':>9}{'ours MB':>9}{'peer MB':>9}"
    )
    unknown = [tf.TensorSpec([None, None])] * 2
    peer = timing.step(losses.get(PEER))
    for shape, bound in SHAPES:
        peer_peak = timing.own_process("--peak", PEER, *map(str, shape))
        for key in KEYS:
            peak = timing.own_process("--peak", key, *map(str, shape))
            for known in (True, False):
                ours = timing.step(losses.get(key))
                if not known:
                    ours = tf.function(ours, input_signature=unknown)
                result = timing.in_turn(ours, peer, shape, arguments.runs, num_grades=3)
                print(
                    f"{shape!s:<14}{key:<27}{'known' if known else 'unknown':<9}"
                    f"{result.ours:>9.2f}{result.peer:>9.2f}{result.ratio:>8.2f}"
                    f"{bound or '':>9}{peak:>9}{peer_peak:>9}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
