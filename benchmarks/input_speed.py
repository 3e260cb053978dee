"""How many queries a second reach the trainer, from text, TFDS and ELWC?

    python benchmarks/input_speed.py [--queries N] [--rounds N]

Lists in the shape of MSLR-WEB (synthetic: 120 items of 136 features) are written as
LETOR text, prepared as a data set of TFDS and as ELWC shards. Timed is one epoch in
padded batches of 32 lists, the reading included, by three ways of ours (into memory
from each form, and ELWC streamed) and by peers: scikit-learn's `load_svmlight_file` and
an array cut by query for text; TFDS's own `padded_batch`; and TensorFlow Ranking's
`build_ranking_dataset` for ELWC. All take turns in every round. Printed are medians of
queries per second, and the median over the rounds of our rate over the peer's.

For ways into memory the rate of the second and later epochs is printed as well.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfr_ext import data, datasets  # noqa: E402

import numpy as np  # noqa: E402  isort: skip
import tensorflow as tf  # noqa: E402  isort: skip
import tensorflow_ranking as tfr  # noqa: E402  isort: skip
from sklearn.datasets import load_svmlight_file  # noqa: E402  isort: skip
from tfr_ext.data import elwc_writer, streams  # noqa: E402  isort: skip

BATCH = 32


def write_text(path: pathlib.Path, lists: data.RankingLists) -> None:
    """Writes lists as LETOR text."""
    rows = np.repeat(np.arange(lists.num_lists), lists.lengths)
    with open(path, "w") as file:
        for label, query, row in zip(lists.labels, rows, lists.features):
            pairs = " ".join(f"{i}:{x:.6g}" for i, x in enumerate(row.tolist(), 1))
            file.write(f"{label:g} qid:{query} {pairs}\n")


def consume(dataset: Iterable) -> int:
    """Takes all batches; returns how many lists they have."""
    return sum(int(labels.shape[0]) for _, labels in dataset)


def from_memory(lists: data.RankingLists) -> int:
    """One epoch from lists in memory."""
    return consume(data.BatchedLists(lists, BATCH, seed=0).dataset())
