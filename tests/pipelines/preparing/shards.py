"""Shards that a test prepares: their flags, their files and what is in them."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr
from absl import flags

from pipelines.flags import config_flags
from tests.files import write_text
from tfr_ext import data
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import data_splits

FLAGS = flags.FLAGS


def load():
    """Reads the data that the flags name, as training does."""
    return data_splits.load(config_flags.read(DataConfig, FLAGS))


def read_split(directory, split, num_features):
    """Reads shards with TensorFlow Ranking's parser, in the order of their names."""
    files = sorted(map(str, directory.glob(f"{split}-*.tfrecord")))
    records = list(tf.data.TFRecordDataset(files))
    parsed = tfr.data.parse_from_example_list(
        records,
        context_feature_spec={"query_id": tf.io.FixedLenFeature([1], tf.string)},
        example_feature_spec={
            "float_features": tf.io.FixedLenFeature(
                [num_features], tf.float32, [0.0] * num_features
            ),
            "label": tf.io.FixedLenFeature([1], tf.float32, [-1.0]),
            "doc_id": tf.io.FixedLenFeature([1], tf.string, [""]),
        },
    )
    labels = parsed["label"].numpy()[..., 0]
    real = labels >= 0
    names = [name.decode() for name in parsed["doc_id"].numpy()[..., 0][real]]
    return data.RankingLists(
        features=parsed["float_features"].numpy()[real],
        labels=labels[real],
        row_splits=np.concatenate([[0], np.cumsum(real.sum(axis=1))]),
        query_ids=[name.decode() for name in parsed["query_id"].numpy()[:, 0]],
        doc_ids=names if all(names) else None,
    )


def shards(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".tfrecord"))


def files_of(directory):
    """All that a finished preparation leaves, but for the time of the source."""
    names = [*shards(directory), "manifest.json"]
    assert sorted([*names, ".prepare"]) == sorted(os.listdir(directory))
    assert os.listdir(directory / ".prepare") == ["plan.json"]
    return {name: (directory / name).read_bytes() for name in names}


def text_flags(tmp_path, seed=0, **kwargs):
    path = write_text(tmp_path / "train.txt", seed, queries=80, **kwargs)
    return ("--dataset=text", f"--train_path={path}", "--shard_megabytes=0.002")
