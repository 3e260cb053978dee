"""Speed and memory of FastSoftRankLoss: forward and backward in a graph.

python benchmarks/soft_rank_speed.py [--runs N]

Ours and TensorFlow Ranking's ApproxNDCGLoss take turns in one process; the ratio is the
median of the ratios of a turn. Memory is what steps add to that of a process of their
own, at their peak.
"""

from __future__ import annotations

import argparse

import tensorflow_ranking as tfr
import timing

import tfr_ext

OURS, APPROX = "ours", "approx_ndcg"
# (batch, list), and the ratio that must not be exceeded.
QUESTIONS: list[tuple[timing.Shape, float]] = [
    ((128, 40), 3),
    ((32, 200), 3),
    ((16, 1000), 3),
]


def make(name: str) -> timing.Step:
    """Returns the peer, or ours."""
    if name == APPROX:
        return timing.step(tfr.keras.losses.ApproxNDCGLoss())
    return timing.step(tfr_ext.losses.FastSoftRankLoss())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="timed pairs of runs")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, batch, size = arguments.peak
        print(f"{timing.added_peak(make(name), (int(batch), int(size))):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'ours ms':>9}{'peer ms':>9}{'ratio':>8}{'at most':>9}"
        f"{'ours MB':>9}{'peer MB':>9}"
    )
    for shape, bound in QUESTIONS:
        pair = timing.in_turn(make(OURS), make(APPROX), shape, arguments.runs)
        peaks = [
            timing.own_process("--peak", name, *map(str, shape))
            for name in (OURS, APPROX)
        ]
        print(
            f"{shape!s:<14}{pair.ours:>9.2f}{pair.peer:>9.2f}{pair.ratio:>8.2f}"
            f"{bound:>9}{peaks[0]:>9}{peaks[1]:>9}",
            flush=True,
        )


if __name__ == "__main__":
    main()
