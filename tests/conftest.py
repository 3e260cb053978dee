"""What all tests share."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tfr_ext import data

# One collection worker a core: TensorFlow itself must not take them all.
tf.config.threading.set_intra_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def real_data():
    """The directory of real collections, if TFR_EXT_DATA names one."""
    path = os.environ.get("TFR_EXT_DATA")
    if not path:
        pytest.skip("TFR_EXT_DATA names no directory of real collections")
    return pathlib.Path(path)


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import tfr_ext

    doctest_namespace.update(np=np, tf=tf, tfr_ext=tfr_ext)


def make_lists(lengths, labels=None, num_features=3, seed=0, doc_ids=None):
    """Lists of given lengths with random features and, unless given, labels 0 to 3."""
    rng = np.random.default_rng(seed)
    items = sum(lengths)
    if labels is None:
        labels = rng.integers(0, 4, items)
    return data.RankingLists(
        features=rng.normal(size=[items, num_features]).astype(np.float32),
        labels=np.asarray(labels, np.float32),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=[f"q{i}" for i in range(len(lengths))],
        doc_ids=doc_ids,
    )
