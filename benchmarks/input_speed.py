"""How many queries a second reach the trainer, from text, TFDS and ELWC?

    python benchmarks/input_speed.py [--queries N] [--rounds N]

Lists in the shape of MSLR-WEB (synthetic: 120 items of 136 features) are written as
LETOR text, prepared as a data set of TFDS, and written as four ELWC shards. Timed is an
epoch in padded batches of 32 lists, reading included. Peers are:

text    scikit-learn's `load_svmlight_file`, its array cut by query and batched by us
TFDS    `padded_batch` of the TFDS data set itself
ELWC    `tfr.data.build_ranking_dataset`, TensorFlow Ranking's own reader, in parallel

All take turns in every round. Printed are medians of queries per second, and the median
over the rounds of our rate over the peer's. Lists in memory are batched again for later
epochs, at the rate in the last column; streamed ones are read again.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfr_ext import data, datasets  # noqa: E402
from tfr_ext.data.elwc import writing  # noqa: E402

import numpy as np  # noqa: E402  isort: skip
import tensorflow as tf  # noqa: E402  isort: skip
import tensorflow_ranking as tfr  # noqa: E402  isort: skip
from sklearn.datasets import load_svmlight_file  # noqa: E402  isort: skip

BATCH = 32
SHARDS = 4
NUM_FEATURES = 136


def write_text(path: pathlib.Path, lists: data.RankingLists) -> None:
    """Writes lists as LETOR text."""
    queries = np.repeat(np.arange(lists.num_lists), lists.lengths)
    with open(path, "w") as file:
        for label, query, row in zip(lists.labels, queries, lists.features):
            pairs = " ".join(f"{i}:{x:.6f}" for i, x in enumerate(row.tolist(), 1))
            file.write(f"{label:g} qid:{query} {pairs}\n")


def write_shards(folder: pathlib.Path, lists: data.RankingLists) -> list[str]:
    """Writes lists as ELWC; returns the files."""
    files: list[str] = []
    for chosen in np.array_split(np.arange(lists.num_lists), SHARDS):
        files.append(str(folder / f"train-{len(files)}.tfrecord"))
        with tf.io.TFRecordWriter(files[-1]) as writer:
            for record in writing.encode(lists.select(chosen)):
                writer.write(record)
    return files


def consume(dataset: Iterable) -> None:
    """Takes all batches."""
    for _ in dataset:
        pass


def in_memory(lists: data.RankingLists) -> None:
    """Takes an epoch of lists in memory."""
    consume(data.BatchedLists(lists, BATCH, seed=0).dataset())


def by_sklearn(path: str) -> data.RankingLists:
    """Reads text as scikit-learn's users do."""
    features, labels, queries = load_svmlight_file(path, query_id=True)
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    return data.RankingLists(
        features.toarray().astype(np.float32),
        labels.astype(np.float32),
        np.append(starts, len(labels)),
        [str(query) for query in queries[starts]],
    )


def by_tfds(name: str, data_dir: str) -> tf.data.Dataset:
    """Returns TFDS's own batches."""
    dataset = datasets.builder(name, data_dir).as_dataset(split="train")
    return dataset.padded_batch(BATCH).prefetch(tf.data.AUTOTUNE)


def by_tfr(files: list[str]) -> tf.data.Dataset:
    """Returns TensorFlow Ranking's own batches."""
    vector = tf.io.FixedLenFeature([NUM_FEATURES], tf.float32, [0.0] * NUM_FEATURES)
    label = tf.io.FixedLenFeature([1], tf.float32, [-1.0])
    return tfr.data.build_ranking_dataset(
        file_pattern=files,
        data_format=tfr.data.ELWC,
        batch_size=BATCH,
        context_feature_spec={},
        example_feature_spec={"float_features": vector, "label": label},
        num_epochs=1,
        shuffle=True,
        shuffle_buffer_size=BATCH,
        reader_num_threads=2,
    )


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to the trainer.

    Attributes:
        name: what it is.
        epoch: one epoch, reading included.
        peer: the same by the peer.
        read: gives the lists for epochs to come, if they stay in memory.
    """

    name: str
    epoch: Callable[[], None]
    peer: Callable[[], None]
    read: Callable[[], data.RankingLists] | None = None


def seconds(call: Callable[[], object]) -> float:
    """Times a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lists = data.synthetic_lists(args.queries, 120, 131, 5)
        fold = folder / "MSLR-WEB10K" / "Fold1"
        fold.mkdir(parents=True)
        text = str(fold / "train.txt")
        write_text(fold / "train.txt", lists)
        for other in ("vali.txt", "test.txt"):
            write_text(fold / other, lists.select([0]))
        elwc = write_shards(folder, lists)
        prepared = "mslr_web/10k_fold1", str(folder / "tfds")
        datasets.prepare(*prepared, name)

        def read_tfds() -> data.RankingLists:
            return datasets.load(prepared[0], "train", prepared[1])

        def stream() -> None:
            batches = data.StreamedBatches(data.StreamedLists(elwc), BATCH, seed=0)
            consume(batches.dataset())

        ways = [
            Way(
                "text",
                lambda: in_memory(data.read_letor(text)),
                lambda: in_memory(by_sklearn(text)),
                lambda: data.read_letor(text),
            ),
            Way(
                "TFDS",
                lambda: in_memory(read_tfds()),
                lambda: consume(by_tfds(*prepared)),
                read_tfds,
            ),
            Way(
                "ELWC",
                lambda: in_memory(data.read_elwc(elwc)),
                lambda: consume(by_tfr(elwc)),
                lambda: data.read_elwc(elwc),
            ),
            Way("ELWC, streamed", stream, lambda: consume(by_tfr(elwc))),
        ]
        print(f"{'source':<16}{'queries/s':>11}{'peer':>9}{'ratio':>8}{'later':>10}")
        for way in ways:
            pairs = [
                (seconds(way.epoch), seconds(way.peer)) for _ in range(args.rounds)
            ]
            ours, peer = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            ratio = statistics.median(theirs / own for own, theirs in pairs)
            later = ""
            if way.read is not None:
                held = way.read()
                call = functools.partial(in_memory, held)
                times = [seconds(call) for _ in range(args.rounds)]
                later = f"{args.queries / statistics.median(times):,.0f}"
            print(
                f"{way.name:<16}{args.queries / ours:>11,.0f}"
                f"{args.queries / peer:>9,.0f}{ratio:>8.2f}{later:>10}",
                flush=True,
            )


if __name__ == "__main__":
    main()
