"""How long does an epoch of MQ2008 take, beside the same network and loss in PyTorch?

    python benchmarks/torch_epoch.py --data DIR [--torch_python PYTHON] ...

Both train the SmoothI paper's network (inputs normalised, 1,024 rectified linear units,
normalised, a linear score; Adam) from the same weights on the same batches of fold 1:
bucketed by length, at most 128 lists, in memory. The peer, `torch_peer.py`, runs in a
process of PYTHON, which has PyTorch. Both have two threads and take turns, five epochs
at a time. Printed is the median over the rounds of ours over the peer's, with the
quartiles, with SmoothI@10 and without a cut-off; then the same ratio of processor time,
which with `--threads 1` is hardly disturbed by other work on the machine. The script
checks that the losses of both agree in the first epoch.

Then it prints where the time of our epoch goes: each line has what is left of an
epoch without one more part. DIR holds `MQ2008/Fold1/train.txt`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")  # as the commands do

import numpy as np  # noqa: E402

from tfr_ext import data, losses, models  # noqa: E402
from tfr_ext.training import lists_datasets  # noqa: E402

import tensorflow as tf  # noqa: E402  isort: skip

EPOCHS = 5
SEED = 1
# Layers whose first weights the peer takes.
LAYERS = {"hidden": "hidden_1", "score": "score"}


class Peer:
    """A process that trains the peer."""

    def __init__(
        self,
        python: str,
        batches: Sequence[tuple],
        model: tf.keras.Model,
        topn: int | None,
        threads: int,
        directory: str,
    ):
        """Starts the process."""
        arrays = {
            "batches": len(batches),
            "threads": threads,
            "topn": topn or 0,
            "epsilon": 1e-3,
            "momentum": 0.1,
        }
        for name, layer in LAYERS.items():
            kernel, bias = model.get_layer(layer).get_weights()
            arrays |= {f"first_{name}_kernel": kernel, f"first_{name}_bias": bias}
        for i, (inputs, labels) in enumerate(batches):
            arrays |= {
                f"features_{i}": inputs["float_features"].numpy(),
                f"mask_{i}": inputs["mask"].numpy(),
                f"labels_{i}": labels.numpy(),
            }
        path = os.path.join(directory, f"batches_{topn}.npz")
        np.savez(path, **arrays)
        script = pathlib.Path(__file__).with_name("torch_peer.py")
        self._process = subprocess.Popen(
            [python, str(script), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def train(self, epochs: int) -> dict[str, float]:
        """Trains some epochs; returns their times, and the loss of the last."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(epochs, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("The peer ended. Does --torch_python have PyTorch?")
        return json.loads(answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def trainer(num_features: int, topn: int | None) -> tf.keras.Model:
    """Returns the paper's network, compiled with SmoothI."""
    tf.keras.utils.set_random_seed(SEED)
    network = models.MLPScorer(hidden_sizes=[1024], batch_normalization=True)
    model = models.model_builder(num_features, network).build()
    model.compile(tf.keras.optimizers.Adam(1e-3), losses.SmoothILoss(topn=topn))
    return model


def ratio(
    python: str, batches: tf.data.Dataset, num_features: int, rounds: int, threads: int
) -> None:
    """Prints the ratio for each cut-off."""
    repeated = batches.repeat(EPOCHS)
    for topn in (10, None):
        model = trainer(num_features, topn)
        times = []
        with tempfile.TemporaryDirectory() as directory:
            peer = Peer(python, list(batches), model, topn, threads, directory)
            own = model.fit(batches, verbose=0).history["loss"][0]
            np.testing.assert_allclose(own, peer.train(1)["loss"], rtol=1e-3)
            for _ in range(rounds + 2):
                start, cpu = time.perf_counter(), time.process_time()
                model.fit(repeated, verbose=0)
                ours = time.perf_counter() - start, time.process_time() - cpu
                theirs = peer.train(EPOCHS)
                times.append((*ours, theirs["seconds"], theirs["cpu"]))
            peer.close()
        times = times[2:]
        own, other = (1e3 * statistics.median(t[i] for t in times) for i in (0, 2))
        low, middle, high = statistics.quantiles([t[0] / t[2] for t in times], n=4)
        print(
            f"{'none' if topn is None else topn:<8}{own / EPOCHS:>8.0f}"
            f"{other / EPOCHS:>9.0f}{middle:>8.2f}{f'{low:.2f} - {high:.2f}':>14}"
            f"{statistics.median(t[1] / t[3] for t in times):>11.2f}"
        )


def parts(batches: tf.data.Dataset, num_features: int, rounds: int) -> None:
    """Prints what an epoch takes with fewer and fewer parts."""
    model = trainer(num_features, 10)
    loss, optimizer = model.loss, model.optimizer
    optimizer.build(model.trainable_variables)
    held = list(batches)
    repeated = batches.repeat(EPOCHS)

    def step(through: Callable[..., tf.Tensor], update: bool) -> Callable:
        @tf.function(input_signature=batches.element_spec)
        def run(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                value = through(labels, model(inputs, training=True))
            slopes = tape.gradient(value, model.trainable_variables)
            if update:
                optimizer.apply_gradients(zip(slopes, model.trainable_variables))
                return value
            return tf.add_n([tf.reduce_sum(slope) for slope in slopes])

        return run

    @tf.function(input_signature=batches.element_spec)
    def forward(inputs: dict[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(model(inputs, training=True))

    def plain(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(scores))

    def over(run: Callable) -> Callable[[], None]:
        def epochs() -> None:
            for _ in range(EPOCHS):
                for inputs, labels in held:
                    value = run(inputs, labels)
                value.numpy()

        return epochs

    lines = {
        "Keras' fit": lambda: model.fit(repeated, verbose=0),
        "without fit": over(step(loss, update=True)),
        "without the optimizer": over(step(loss, update=False)),
        "without the loss": over(step(plain, update=False)),
        "without going back": over(forward),
        "input alone": lambda: sum(1 for _ in repeated),
    }
    times: dict[str, list[float]] = {name: [] for name in lines}
    for _ in range(rounds + 2):
        for name, run in lines.items():
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) / EPOCHS)
    print(f"\n{'an epoch, ms':<24}")
    for name, found in times.items():
        print(f"{name:<24}{1e3 * statistics.median(found[2:]):>8.1f}")


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--torch_python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    flags = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(flags.threads)
    tf.config.threading.set_inter_op_parallelism_threads(flags.threads)
    path = pathlib.Path(flags.data) / "MQ2008" / "Fold1" / "train.txt"
    lists = data.read_letor(str(path))
    batched = lists_datasets.ListsDatasets(lists, lists, 128, SEED)
    batches = batched.batches_of([0]).cache()
    print(
        f"{'cut-off':<8}{'ours ms':>8}{'peer ms':>9}{'ratio':>8}{'quartiles':>14}"
        f"{'processor':>11}"
    )
    ratio(flags.torch_python, batches, lists.num_features, flags.rounds, flags.threads)
    parts(batches, lists.num_features, flags.rounds)


if __name__ == "__main__":
    main()
