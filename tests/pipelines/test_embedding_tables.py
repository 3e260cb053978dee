"""Tables with embeddings by the commands, from Parquet to ranks."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.commands import bad, rows_of, run_command, told, train
from tests.tables import SMALL

pytest.importorskip("pyarrow")
COLUMNS = (
    "--dataset=table",
    "--embedding_columns=vector,wish",
    "--context_columns=wish",
)


def frame(seed):
    rng = np.random.default_rng(seed)
    query = np.repeat(np.arange(40), 5)
    vectors = rng.normal(size=[200, 3]).astype(np.float32)
    wishes = rng.normal(size=[40, 3]).astype(np.float32)[query]
    found = pd.DataFrame({"query_id": [f"{seed}q{i}" for i in query]})
    found["price"] = rng.normal(size=200).astype(np.float32)
    found["label"] = ((vectors * wishes).sum(axis=1) > 0.5).astype(int)
    return found.assign(vector=[*vectors], wish=[*wishes])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("embeddings")
    for seed, split in enumerate(("train", "valid", "test")):
        df = frame(seed)
        df.to_parquet(directory / f"{split}.parquet", index=False)
    lines = [
        json.dumps(row, default=np.ndarray.tolist) for row in df.to_dict("records")
    ]
    (directory / "test.jsonl").write_text("\n".join(lines))
    return directory


def paths_of(files):
    return [f"--{x}_path={files}/{x}.parquet" for x in ("train", "valid", "test")]


def test_from_parquet_to_ranks(files, tmp_path):
    run = tmp_path / "run"
    printed = train(*COLUMNS, *SMALL, *paths_of(files), f"--model_dir={run}").stdout
    line = "Features: price. Embeddings: vector, wish. Of the context: wish. (Choose"
    assert printed.count(line) == 1
    ranked = []
    for ending in ("parquet", "jsonl"):
        output = tmp_path / f"{ending}.run"
        given = [f"--input={files}/test.{ending}", f"--output={output}"]
        run_command("pipelines.rank", f"--export={run}/export", *given)
        ranked.append(output.read_text())
    assert ranked[0] == ranked[1]
    # Shards have the embeddings, and what they are.
    shards = tmp_path / "shards"
    run_command(
        "pipelines.prepare", *COLUMNS, *paths_of(files), f"--output_dir={shards}"
    )
    of_shards = ["--dataset=elwc", f"--data_dir={shards}", *SMALL]
    train(*of_shards, "--noexport_model", f"--model_dir={tmp_path}/again")
    given = [f"--input={shards}/test-*.tfrecord", f"--output={tmp_path}/shards.run"]
    run_command("pipelines.rank", f"--export={run}/export", *given)
    (order, scores), (expected, others) = (
        rows_of(tmp_path / name) for name in ("shards.run", "parquet.run")
    )
    assert order == expected
    np.testing.assert_allclose(scores, others, rtol=1e-4, atol=1e-6)
    metrics = [
        json.loads((tmp_path / x / "metrics.json").read_text())["test"]
        for x in ("run", "again")
    ]
    assert metrics[0] == metrics[1]
    text = tmp_path / "new.elwc.tfrecord"
    text.write_bytes((shards / "test-00000-of-00001.tfrecord").read_bytes())
    given = [f"--input={text}", f"--output={tmp_path}/new.run"]
    done = run_command("pipelines.rank", f"--export={run}/export", *given, check=False)
    assert "the model takes embeddings (vector, wish), which ELWC" in told(done)


def test_what_is_wrong_is_told(files, tmp_path):
    given = [*COLUMNS, *SMALL, *paths_of(files)]
    df = frame(0)
    df.at[7, "vector"] = [1.0, 2.0]
    df.to_parquet(tmp_path / "wrong.parquet")
    for flags, error in (
        (
            [f"--valid_path={tmp_path}/wrong.parquet"],
            "row 7: column 'vector' is array(",
        ),
        (["--context_columns="], "'vector' says nothing: there is none of the context"),
        (["--embedding_columns=vektor"], "There is no column 'vektor'"),
        (["--dataset=elwc"], "--embedding_columns=vector,wish has no meaning with"),
    ):
        assert error in bad(tmp_path, *given, *flags), flags
