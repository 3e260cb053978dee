"""How fast are the baseline losses against TFR's ApproxNDCGLoss?

    python benchmarks/baselines_speed.py [--runs N] [--loss KEY...]

Forward and backward pass of each loss in a `tf.function`, on random lists, measured in
turn in one process; the ratio is the median of the ratios within a turn, below 1 where
ours is faster. Memory is what steps add to that of a process of their own, at their
peak.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import timing  # noqa: E402

from tfr_ext import losses  # noqa: E402

SHAPES = [(128, 40), (32, 200), (16, 1000)]
PEER = "approx_ndcg_loss"
Arguments = dict[str, Any]
# Key, arguments, and the ratio that must not be exceeded at each shape.
QUESTIONS: list[tuple[str, Arguments, tuple[float | None, ...]]] = [
    ("list_net_loss", {}, (None,) * 3),
    ("list_ap_loss", {}, (3, 3, 3)),
    ("approx_metric_loss", {}, (1.2,) * 3),
    ("approx_metric_loss", {"topn": 10}, (1.2,) * 3),
    ("approx_metric_loss", {"metric": "precision", "topn": 10}, (1.2,) * 3),
    ("approx_metric_loss", {"metric": "map"}, (None,) * 3),
    ("soft_sort_loss", {"topn": 10}, (1.0, 1.0, 0.3)),
    ("soft_sort_loss", {}, (None,) * 3),
    ("soft_sort_loss", {"form": "position"}, (None,) * 3),
    ("fast_soft_rank_loss", {}, (3, 3, 3)),
    ("sinkhorn_sort_loss", {}, (None,) * 3),
]


def make(key: str, arguments: Arguments) -> timing.Step:
    """Returns a step of a loss."""
    return timing.step(losses.get(key, **arguments))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50, help="timed pairs of runs")
    parser.add_argument("--loss", nargs="*", help="keys, all by default")
    parser.add_argument("--peak", nargs=4, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.peak:
        key, arguments, batch, size = flags.peak
        step = make(key, json.loads(arguments))
        print(f"{timing.added_peak(step, (int(batch), int(size))):.0f}")
        return
    print(
        f"{'(batch, list)':<14}{'loss':<52}{'ours ms':>9}{'peer ms':>9}"
        f"{'ratio':>8}{'at most':>9}{'ours MB':>9}{'peer MB':>9}"
    )
    for i, shape in enumerate(SHAPES):
        peer = make(PEER, {})
        peer_peak = timing.own_process("--peak", PEER, "{}", *map(str, shape))
        for key, arguments, bounds in QUESTIONS:
            if flags.loss and key not in flags.loss:
                continue
            pair = timing.in_turn(make(key, arguments), peer, shape, flags.runs)
            text = json.dumps(arguments)
            peak = timing.own_process("--peak", key, text, *map(str, shape))
            name = ", ".join([key, *(f"{k}={v}" for k, v in arguments.items())])
            print(
                f"{shape!s:<14}{name:<52}{pair.ours:>9.2f}{pair.peer:>9.2f}"
                f"{pair.ratio:>8.2f}{bounds[i] or '':>9}{peak:>9}{peer_peak:>9}",
                flush=True,
            )


if __name__ == "__main__":
    main()
