"""How fast does an exported ranker answer, and does it hold its memory?

    python benchmarks/serving_speed.py [--seconds 10] [--sizes 20 100 1000]

Exports a scorer of 136 features and two hidden layers of 256 units, and asks for the
scores of batches of full lists in four ways, which take turns:

keras     the Keras model, called through `tf.function`; the others' peer
export    the signature `masked` in a session, as TensorFlow Serving loads and runs it
function  the same signature, loaded by `tf.saved_model.load`
elwc      the signature `elwc` in the session: the same features as serialised protos

Inputs are NumPy arrays and strings, and the time ends when the scores are one again.
Printed are the median and the 99th percentile in milliseconds, lists per second at the
median, and the median over the turns of the ratios export/keras, function/keras and
elwc/export. Not timed is what a server adds: the network, and JSON with REST.

Then a process of its own sends 10,000 requests with lists of 1 to 200 items to the
session, half of them ELWC, and prints its memory after 1,000 and after all.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import timing  # noqa: E402

from tfr_ext import models  # noqa: E402
from tfr_ext.data.elwc.message import ExampleListWithContext  # noqa: E402
from tfr_ext.serving import exporter  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

tf.get_logger().setLevel("ERROR")  # The loader of sessions is deprecated.
NUM_FEATURES = 136
BATCHES = (1, 8, 64)
WAYS = ("keras", "export", "function", "elwc")
LEAST_TURNS = 10
REQUESTS, EARLY = 10_000, 1000
Call = Callable[[], np.ndarray]


def build() -> tf.keras.Model:
    """Builds the scorer, untrained."""
    scorer = models.MLPScorer([256, 256])
    return models.model_builder(NUM_FEATURES, scorer).build()


class Session:
    """An export as TensorFlow Serving loads it."""

    def __init__(self, version: str):
        """Loads a version."""
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        with graph.as_default():
            loaded = tf.compat.v1.saved_model.loader.load(
                self._session, ["serve"], version
            )
        self._signatures = loaded.signature_def

    def asked(self, name: str, *inputs: str) -> Callable[..., np.ndarray]:
        """Returns the scores of a signature, as a function of its inputs."""
        signature = self._signatures[name]
        return self._session.make_callable(
            signature.outputs["scores"].name,
            [signature.inputs[key].name for key in inputs],
        )


def protos(features: np.ndarray) -> np.ndarray:
    """Returns lists `[batch, list, features]` as serialised ELWC `[batch]`."""
    texts = []
    for items in features.tolist():
        elwc = ExampleListWithContext()
        for item in items:
            feature = elwc.examples.add().features.feature["float_features"]
            feature.float_list.value.extend(item)
        texts.append(elwc.SerializeToString())
    return np.array(texts, object)


def ways(model: tf.keras.Model, version: str) -> Callable[[int, int], dict[str, Call]]:
    """Returns the contestants, as functions of the sizes of a batch and its lists."""
    session = Session(version)
    masked = session.asked("masked", "float_features", "mask")
    elwc = session.asked("elwc", "examples")
    loaded = tf.saved_model.load(version)
    function = loaded.signatures["masked"]
    keras = tf.function(
        lambda x, mask: model({"float_features": x, "mask": mask}, training=False),
        input_signature=[
            tf.TensorSpec([None, None, NUM_FEATURES]),
            tf.TensorSpec([None, None], tf.bool),
        ],
    )

    def calls(batch: int, size: int) -> dict[str, Call]:
        shape = batch, size, NUM_FEATURES
        features = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        mask = np.ones(shape[:2], bool)
        texts = protos(features)
        both = {"float_features": features, "mask": mask}
        return {
            "keras": lambda: keras(tf.constant(features), tf.constant(mask)).numpy(),
            "export": lambda: masked(features, mask),
            "function": lambda: function(
                **{key: tf.constant(value) for key, value in both.items()}
            )["scores"].numpy(),
            "elwc": lambda: elwc(texts),
        }

    # The functions of a SavedModel do not keep its variables.
    calls.loaded = loaded  # type: ignore[attr-defined]
    return calls


def in_turn(calls: dict[str, Call], seconds: float) -> dict[str, list[float]]:
    """Returns milliseconds by contestant; another one begins each turn."""
    expected = calls["keras"]()
    for call in calls.values():
        for _ in range(3):
            np.testing.assert_allclose(call(), expected, rtol=1e-3, atol=1e-4)
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = [*calls]
    end = time.perf_counter() + seconds
    while len(times["keras"]) < LEAST_TURNS or time.perf_counter() < end:
        for name in order:
            start = time.perf_counter()
            calls[name]()
            times[name].append(1e3 * (time.perf_counter() - start))
        order = [*order[1:], order[0]]
    return times


def ratio(times: dict[str, list[float]], name: str, peer: str) -> float:
    """Returns the median of the ratios within a turn."""
    return statistics.median(a / b for a, b in zip(times[name], times[peer]))


def hold_memory(version: str) -> None:
    """Sends requests and prints the resident megabytes, early and at the end."""
    session = Session(version)
    masked = session.asked("masked", "float_features", "mask")
    elwc = session.asked("elwc", "examples")
    rng = np.random.default_rng(0)
    lists = [
        rng.normal(size=[1, size, NUM_FEATURES]).astype(np.float32)
        for size in rng.integers(1, 201, 100)
    ]
    inputs = [(x, np.ones(x.shape[:2], bool), protos(x)) for x in lists]
    for number in range(1, REQUESTS + 1):
        features, mask, texts = inputs[number // 2 % len(inputs)]
        if number % 2:
            masked(features, mask)
        else:
            elwc(texts)
        if number in (EARLY, REQUESTS):
            print(f"{timing.resident() / 1e6:.0f}")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="for each row")
    parser.add_argument("--sizes", type=int, nargs="*", default=[20, 100, 1000])
    parser.add_argument("--hold_memory", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hold_memory:
        hold_memory(args.hold_memory)
        return
    with tempfile.TemporaryDirectory() as folder:
        model = build()
        version = exporter.export_ranker(model, folder)
        calls = ways(model, version)
        print(f"TensorFlow {tf.__version__}")
        heads = "".join(f"{name:>25}" for name in WAYS)
        print(f"{'':>17}{heads}{'ratios':>27}")
        columns = f"{'p50':>9}{'p99':>8}{'lists/s':>8}" * len(WAYS)
        heads = f"{'export':>9}{'function':>9}{'elwc':>9}"
        print(f"{'list':>5}{'batch':>6}{'turns':>6}{columns}{heads}")
        for size in args.sizes:
            for batch in BATCHES:
                times = in_turn(calls(batch, size), args.seconds)
                row = f"{size:>5}{batch:>6}{len(times['keras']):>6}"
                for name in WAYS:
                    middle, high = np.percentile(times[name], [50, 99])
                    row += f"{middle:>9.2f}{high:>8.2f}{1e3 * batch / middle:>8,.0f}"
                for name, peer in zip(WAYS[1:], ("keras", "keras", "export")):
                    row += f"{ratio(times, name, peer):>9.2f}"
                print(row, flush=True)
        early, late = timing.own_process("--hold_memory", version).split()
        print(f"Memory: {early} MB after {EARLY:,} requests, {late} after {REQUESTS:,}")


if __name__ == "__main__":
    main()
