"""How much memory does a process keep after each fit?

    python benchmarks/fit_memory.py [--fits 12]

Fits `Ranker` again and again in one process, as a grid search does, and a plain Keras
model of the same layers on the same lists as one padded batch of arrays in another: a
new model each time, the last one let go, and no `clear_session`. Prints how much the
resident memory of each grows per fit, from the second fit to the last, and the ratio
(at most 1.5). Linux; MB are 10**6 bytes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

_QUERIES, _ITEMS, _FEATURES, _UNITS, _EPOCHS = 100, 20, 25, (64, 64), 3


def resident() -> float:
    """Returns the resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def ranker() -> Callable[[], object]:
    """Returns a function that fits a `Ranker`."""
    import tfr_ext

    lists = _lists()
    group = lists.lengths
    return lambda: tfr_ext.Ranker(hidden_sizes=_UNITS, num_epochs=_EPOCHS).fit(
        lists.features, lists.labels, group=group
    )


def keras() -> Callable[[], object]:
    """Returns a function that fits a plain model of the same layers."""
    import tensorflow as tf

    lists = _lists()
    features = lists.features.reshape(_QUERIES, _ITEMS, _FEATURES)
    labels = lists.labels.reshape(_QUERIES, _ITEMS)
    held = _QUERIES // 5  # As many as `Ranker` holds out.

    def fit() -> tf.keras.Model:
        layers = [tf.keras.layers.Dense(units, "relu") for units in _UNITS]
        model = tf.keras.Sequential(
            [
                tf.keras.Input([None, _FEATURES]),
                *layers,
                tf.keras.layers.Dense(1),
                tf.keras.layers.Reshape([-1]),
            ]
        )
        model.compile("adam", tf.keras.losses.CategoricalCrossentropy(True))
        model.fit(
            features[held:],
            labels[held:],
            validation_data=(features[:held], labels[:held]),
            epochs=_EPOCHS,
            batch_size=128,
            verbose=0,
        )
        return model

    return fit


def _lists():  # noqa: ANN202 (imported late)
    from tfr_ext.data import synthetic_lists

    return synthetic_lists(_QUERIES, _ITEMS, max_label=4)


_WORK = {"Ranker": ranker, "Keras": keras}


def growth(name: str, fits: int) -> float:
    """Returns the growth per fit in MB, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--work", name, "--fits", str(fits)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    sizes = [float(line) for line in done.stdout.split()]
    return (sizes[-1] - sizes[1]) / (len(sizes) - 2)


def main() -> None:
    """Prints the growth of each, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=12)
    parser.add_argument("--work", choices=_WORK, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        fit = _WORK[args.work]()
        for _ in range(args.fits):
            fit()
            print(resident(), flush=True)
        return
    found = {name: growth(name, args.fits) for name in _WORK}
    for name, size in found.items():
        print(f"{name:<8}{size:>7.2f} MB a fit")
    print(f"ratio   {found['Ranker'] / found['Keras']:>7.2f}")


if __name__ == "__main__":
    main()
