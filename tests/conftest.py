"""What all tests share."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from tests import commands
from tfr_ext import data

# One collection worker a core: TensorFlow itself must not take them all.
tf.config.threading.set_intra_op_parallelism_threads(1)


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """The directory that TFR_EXT_DATA names, with MQ2008/Fold1/train.txt and so on.

    One that has a script `make_folds.sh` to lay out such a directory will do as well.
    """
    path = os.environ.get("TFR_EXT_DATA")
    if not path:
        pytest.skip("TFR_EXT_DATA names no directory with MQ2008/Fold1/train.txt")
    path = pathlib.Path(path)
    script = path / "make_folds.sh"
    if script.exists():
        path = tmp_path_factory.mktemp("data")
        subprocess.run(["bash", script, path], check=True)
    return path


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import tfr_ext

    doctest_namespace.update(np=np, tf=tf, tfr_ext=tfr_ext)


def run_command(module, *flags, check=True):
    """Runs `python -m module` with flags, as a user does."""
    done = commands.run(module, [*map(str, flags)])
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


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
