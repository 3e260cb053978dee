"""How time and memory of each loss grow with the list, from 10 to 10,000 items.

python benchmarks/growth.py [--figure FILE.png] [--losses KEY ...]

Forward and backward of one list in a graph, in a process for each loss and list size.
Time is the median of steps, memory what the steps add to the process at their peak. The
exponents are the slopes of straight lines through the logarithms, of the sizes from
1,000 items up: below, the cost is that of starting operations.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics

import timing

import tfr_ext
from tfr_ext.losses import RankingLoss

import tensorflow as tf  # isort: skip

SIZES = (10, 30, 100, 300, 1000, 3000, 10000)
FITTED_FROM = 1000
NUM_GRADES = 5
# Memory below this, in MB, is that of no list: what the first step leaves behind.
LEAST_MEGABYTES = 1.0


def own_losses() -> list[str]:
    """Returns the keys of the losses of this package."""
    return [
        key
        for key in tfr_ext.losses.keys()
        if isinstance(tfr_ext.losses.get(key), RankingLoss)
    ]


def make(key: str) -> timing.Loss:
    """Returns a loss of labels and scores; of distributions, through the scores."""
    loss = tfr_ext.losses.get(key)
    if "max_label" in tfr_ext.losses.parameters(key):
        # It has an effect only with some metrics of a metric loss.
        with contextlib.suppress(ValueError):
            loss = tfr_ext.losses.get(key, max_label=NUM_GRADES - 1.0)
    if getattr(loss, "RANK", 2) == 2:  # TensorFlow Ranking's have none.
        return loss

    def of_scores(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        grades = tf.range(float(NUM_GRADES))
        distributions = tf.one_hot(tf.cast(labels, tf.int32), NUM_GRADES)
        return loss(distributions, scores[:, :, tf.newaxis] * grades)

    return of_scores


def measure(key: str, size: int) -> tuple[float, float]:
    """Returns the seconds of a step, and the MB that steps add at their peak."""
    both = timing.step(make(key))
    megabytes = timing.added_peak(both, (1, size), NUM_GRADES)
    labels, scores = timing.lists((1, size), NUM_GRADES)
    times = [timing.seconds(lambda: both(labels, scores)) for _ in range(9)]
    return statistics.median(times), megabytes


def exponent(values: list[float]) -> float:
    """Returns the slope of the values over the sizes, both in logarithms."""
    points = [
        (math.log(size), math.log(max(value, 1e-9)))
        for size, value in zip(SIZES, values)
        if size >= FITTED_FROM
    ]
    x_mean, y_mean = (statistics.mean(p[i] for p in points) for i in range(2))
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / sum(
        (x - x_mean) ** 2 for x, _ in points
    )


def draw(path: str, results: dict[str, list[tuple[float, float]]]) -> None:
    """Draws time and memory over the list size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5))
    names = ("seconds a step", "MB added at the peak")
    markers = "osv^D<>P*X"
    for i, (axis, name) in enumerate(zip(axes, names)):
        for marker, (key, values) in zip(markers, results.items()):
            drawn = [max(v[i], LEAST_MEGABYTES if i else 0) for v in values]
            axis.loglog(SIZES, drawn, marker=marker, markersize=4, label=key)
        axis.set_xlabel("items of a list")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7, loc="upper left")  # No line comes there.
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Prints the table and draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", help="file of the plot, a PNG")
    parser.add_argument("--losses", nargs="+", default=own_losses(), help="keys")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        key, size = arguments.measure
        print(json.dumps(measure(key, int(size))))
        return
    heads = [f"{size:,}" for size in SIZES]
    print(
        f"{'loss':<32}{'':<4}{''.join(f'{head:>9}' for head in heads)}{'exponent':>10}"
    )
    results = {}
    for key in arguments.losses:
        results[key] = [
            tuple(json.loads(timing.own_process("--measure", key, str(size))))
            for size in SIZES
        ]
        for i, (unit, scale, digits) in enumerate((("ms", 1e3, 2), ("MB", 1, 0))):
            values = [v[i] for v in results[key]]
            shown = "".join(f"{scale * v:>9.{digits}f}" for v in values)
            if i:
                values = [max(v, LEAST_MEGABYTES) for v in values]
            print(f"{key:<32}{unit:<4}{shown}{exponent(values):>10.2f}", flush=True)
    if arguments.figure:
        draw(arguments.figure, results)


if __name__ == "__main__":
    main()
