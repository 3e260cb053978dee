"""What pages take for granted: small files, and names that their code does not make."""

import gzip
import shutil

import numpy as np

from tests import fork_server, layouts
from tests.docs import commands, pages

# Pages whose code trains for longer than a few seconds.
SLOW = tuple(
    f"docs/guide/{name}.md" for name in ("ranker", "ranking", "tfr", "training")
)
# Pages that need a server: tests/serving/test_guide.py runs them.
SERVED = ("docs/guide/serving.md",)
_COLLECTIONS = {"MQ2008": 46, "MSLR-WEB30K": 136, "OHSUMED/QueryLevelNorm": 45}
COLUMNS = ("query_id", "bm25", "price", "doc_id", "label")


def write_files(page, directory):
    """Writes the files that the blocks of a page read into a directory.

    Collections and files have the names that stand for them on the pages.
    """
    text = layouts.letor_text("train", 46, num_queries=12)
    for name in ("FILE", "test.txt", "new.txt"):
        (directory / name).write_text(
            "".join(
                line.replace(" 46:", " 25:1.5 46:") for line in text.splitlines(True)
            )
        )
    with gzip.open(directory / "new.txt.gz", "wt") as file:
        file.write((directory / "new.txt").read_text())
    for downloads in ("DOWNLOADS", "downloads", "letor"):
        for name, width in _COLLECTIONS.items():
            layouts.write_fold(directory / downloads / name / "Fold1", width)
        layouts.write_covid(directory / downloads)
    for folder in ("configs", "serving"):
        shutil.copytree(pages.ROOT / folder, directory / folder)
    _write_tables(directory)
    for name, flags in _MODELS.get(page, {}).items():
        small = [*commands.MORE["train"].split(), f"--model_dir={name}"]
        done = fork_server.run("pipelines.train", [*flags.split(), *small], directory)
        assert done.returncode == 0, done.stderr


def names(page):
    """The names that the Python blocks of a page use and do not make."""
    import tensorflow as tf

    import tfr_ext

    found = {"tf": tf, "np": np, "tfr_ext": tfr_ext}
    if page in _NAMES:
        found.update(_NAMES[page]())
    return found


# The models that pages take for granted, with the flags that train them.
_MODELS = {
    "docs/guide/ranking.md": {"models/text": "--flagfile=text --train_path=FILE"},
    "docs/guide/comparing.md": {
        f"runs/{loss}/{seed}": f"--flagfile=quickstart --loss={loss} --seed={seed} "
        "--data_seed=1 --noexport_model --nodraw_curves"
        for loss in ("smoothi_loss", "softmax_loss")
        for seed in (1, 2)
    },
}


def _write_tables(directory):
    import pandas as pd

    rng = np.random.default_rng(0)
    rows = [
        (f"q{q}", *rng.normal(size=2), f"D{q}-{i}", rng.integers(3))
        for q in range(20)
        for i in range(4)
    ]
    for name, line in (
        ("run.trec", "{0} Q0 {3} 1 {1} bm25\n"),
        ("qrels.txt", "{0} 0 {3} {4}\n"),
    ):
        (directory / name).write_text("".join(line.format(*row) for row in rows))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    (directory / "test").mkdir()
    for name in ("train", "new"):
        frame.to_csv(directory / f"{name}.csv", index=False)
    for name in ("train", "test", "test/part"):
        frame.drop(columns="doc_id").to_parquet(directory / f"{name}.parquet")


def _keras():
    """A Keras model that scores lists of three items, and a dataset for it."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    features = rng.normal(size=[8, 3, 2]).astype(np.float32)
    labels = rng.integers(0, 3, [8, 3]).astype(np.float32)
    layers = [tf.keras.layers.Dense(1), tf.keras.layers.Reshape([-1])]
    return {
        "model": tf.keras.Sequential(layers),
        "dataset": tf.data.Dataset.from_tensor_slices((features, labels)).batch(4),
        "labels": labels,
    }


def _data():
    """Arrays, a frame and lists, as the guide to data calls them."""
    import dataclasses

    import pandas as pd

    import tfr_ext

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=[16, 136]), rng.integers(0, 3, 16)
    queries = np.repeat([1, 2, 3], [3, 8, 5])
    frame = pd.DataFrame({"bm25": X[:, 0], "clicked": y > 0, "session": queries})
    lists = tfr_ext.data.RankingLists.from_arrays(X, y, group=[3, 8, 5])
    return {
        "dataclasses": dataclasses,
        **{"X": X, "y": y, "queries": queries, "df": frame, "train": lists},
        "scorer": tfr_ext.models.MLPScorer([8]),
        "shares": rng.dirichlet(np.ones(3), 16).astype(np.float32),
    }


def _tfr():
    """Builders for a pipeline of TensorFlow Ranking."""
    import tfr_ext.tfr  # isort: skip
    import tensorflow_ranking as tfr

    train = tfr_ext.data.synthetic_lists(20, list_size=4)
    batches = tfr_ext.data.BatchedLists(train, 4).dataset()
    return {
        "model_builder": tfr_ext.models.model_builder(
            25, tfr_ext.models.MLPScorer([4])
        ),
        # An epoch has as many steps as the page says, so the data repeat.
        "dataset_builder": tfr.keras.pipeline.NullDatasetBuilder(
            batches.repeat(), batches
        ),
    }


_NAMES = {
    **dict.fromkeys(("README.md", "docs/index.md", "docs/guide/training.md"), _keras),
    "docs/guide/diagnosis.md": _keras,
    "docs/guide/data.md": _data,
    "docs/guide/tfr.md": _tfr,
}
