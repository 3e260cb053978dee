"""Tables on the command line: training, evaluation, shards with weights, messages."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from tests.commands import bad, run_command, told, train
from tests.helpers import make_lists
from tests.tables import frame, tabular
from tfr_ext.data import read_elwc

pytest.importorskip("pyarrow")
FLAGS = (
    "--dataset=table",
    "--query_column=query",
    "--doc_id_column=doc",
    "--feature_columns=x,y,z",
)
# The loss is not what is tested: this one's graph is small.
SMALL = (
    *(
        "--model=mlp",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--batch_size=8",
        "--verbose=silent",
    ),
    *("--loss=list_net_loss", "--nodraw_curves"),
)
SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    for seed, split in enumerate(SPLITS):
        names = [f"D{i}" for i in range(23 * 6)]
        lists = make_lists([5, 9, 2, 7] * 6, seed=seed, doc_ids=names)
        df = frame(tabular(lists)).assign(title="a b")
        if split == "train":
            df[:60].assign(query="a" + df["query"]).to_csv(
                directory / "train-0.csv.gz", index=False
            )
            df[60:].to_parquet(directory / "train-1.parquet")
        elif split == "test":  # Judged by people: without weights.
            df = df.drop(columns="weight")
            df.to_csv(directory / "test.tsv", index=False, sep="\t")
        else:
            df.to_csv(directory / "valid.csv", index=False)
    return directory


def paths(files):
    return [f"--{split}_path={files}/{split}*" for split in SPLITS]


@pytest.fixture(scope="module")
def run(files):
    given = [*FLAGS, *paths(files), "--weight_column=weight"]
    return given, train(*given, *SMALL, f"--model_dir={files}/model")


def metrics(path):
    return json.loads((path / "metrics.json").read_text())


def test_tables_of_several_formats_train_and_are_evaluated(files, run, tmp_path):
    given, done = run
    assert "train: 24 queries, 138 items of 3 features" in done.stdout
    assert "The loss uses the weights of the items; metrics do not." in done.stdout
    assert f"test: {files}/test.tsv has no weights ('weight')" in done.stdout
    export = f"--export={files}/model/export"
    done = run_command("pipelines.evaluate", export, *given, f"--output_dir={tmp_path}")
    found, expected = metrics(tmp_path)["test"], metrics(files / "model")["test"]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    assert "D1 " in (tmp_path / "run.trec").read_text()


def test_an_export_finds_its_columns_again(files, run, tmp_path):
    df = pd.read_csv(files / "test.tsv", sep="\t")
    df[df.columns[::-1]].assign(a=1.0).to_csv(tmp_path / "other.csv", index=False)
    export = f"--export={files}/model/export"
    given = [*FLAGS[:3], f"--test_path={tmp_path}/other.csv", export]
    run_command("pipelines.evaluate", *given, f"--output_dir={tmp_path}/out")
    found, expected = metrics(tmp_path / "out")["test"], metrics(files / "model")
    for name, value in expected["test"].items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    df.drop(columns="y").to_csv(tmp_path / "other.csv", index=False)
    done = run_command("pipelines.evaluate", *given, check=False)
    assert "other.csv: There is no column 'y'" in told(done)


def test_training_on_shards_is_training_on_the_tables(files, run, tmp_path):
    given, _ = run
    out = tmp_path / "shards"
    done = run_command(
        "pipelines.prepare", *given, "--num_workers=1", f"--output_dir={out}"
    )
    assert "train-00001-of-00002.tfrecord" in done.stdout
    assert metrics_source(out)["weight_column"] == "weight"
    shards = ["--dataset=elwc", f"--data_dir={out}", "--weight_column=weight"]
    train(*shards, *SMALL, "--noexport_model", f"--model_dir={tmp_path}/elwc")
    for name in ("history.tsv", "metrics.json", "run.trec"):
        found = (tmp_path / "elwc" / name).read_text()
        assert found == (files / "model" / name).read_text()
    done = train(*shards[:2], *SMALL, "--noexport_model", f"--model_dir={tmp_path}/no")
    assert f"{out} has weights, which are not used without --weight_column=wei" in (
        done.stdout
    )
    history = (tmp_path / "no" / "history.tsv").read_text()
    assert history != (files / "model" / "history.tsv").read_text()


def metrics_source(directory):
    return json.loads((directory / "manifest.json").read_text())["source"]


def test_what_is_wrong_is_told_by_file_row_and_flag(files, tmp_path):
    df = pd.read_csv(files / "valid.csv")
    path = tmp_path / "clicks.csv"
    df.assign(y=df["y"].where(df.index != 7, np.inf)).to_csv(path, index=False)
    given = [*FLAGS, f"--train_path={path}", *SMALL]
    assert f"{path}:9: row 7: column 'y' is inf, expected" in bad(tmp_path, *given)
    done = run_command(
        "pipelines.prepare",
        *given[: -len(SMALL)],
        f"--output_dir={tmp_path}/out",
        check=False,
    )
    assert f"{path}:9: row 7" in told(done)
    given[-len(SMALL) - 1] = f"--train_path={files}/valid.csv"
    for flags, error in (
        (["--label_column=rel"], "valid.csv: There is no column 'rel'. Found: 'query'"),
        (["--feature_columns=x,title"], "row 0: column 'title' is 'a b', expected a n"),
        (["--num_features=4"], "Name the features with --feature_columns"),
        (["--dataset=text"], "has no meaning with --dataset=text"),
        (["--stream"], "again and again. Received: --dataset=table."),
    ):
        assert error in bad(tmp_path, *given, *flags), flags


def test_names_with_blanks_go_through_all_commands(tmp_path):
    """As they are in tables and shards, with %XX in TREC files."""
    queries = ["red shoes", "a\u00a0b", "100%", "c%20d", "\u3000", "e\nf\tg"]
    queries += [f"blue shoes {i}" for i in range(6)]
    held = ["red%20shoes", "a%C2%A0b", "100%", "c%20d", "%E3%80%80", "e%0Af%09g"]
    held += [f"blue%20shoes%20{i}" for i in range(6)]
    lists = dataclasses.replace(
        make_lists([3] * 12, doc_ids=["D 1", "D 2", "D 1"] * 12), query_ids=queries
    )
    path, flags = f"{tmp_path}/clicks.csv", [*FLAGS, *SMALL, "--metrics=map"]
    frame(tabular(lists)).to_csv(path, index=False)
    data = [f"--{split}_path={path}" for split in SPLITS]
    train(*flags, *data, "--noexport_model", f"--model_dir={tmp_path}/model")
    run_command("pipelines.export", f"--model_dir={tmp_path}/model")
    export = f"--export={tmp_path}/model/export"
    given = [*FLAGS, f"--test_path={path}", "--metrics=map"]
    run_command("pipelines.evaluate", *given, export, f"--output_dir={tmp_path}/a")
    run_command(
        "pipelines.rank",
        *(*FLAGS, export, f"--input={path}", f"--output={tmp_path}/x.run"),
    )
    lines = (tmp_path / "x.run").read_text().splitlines()
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == held
    assert {line.split()[2] for line in lines} == {"D%201", "D%202", "D%201#2"}
    run = f"--run={tmp_path}/x.run"
    done = run_command(
        "pipelines.evaluate",
        *(*given, run, f"--rerank_run={tmp_path}/x.run", "--rerank_depth=2"),
        "--print_per_query",
    )
    assert "not in the run" not in done.stdout and "\ne%0Af%09g  " in done.stdout
    run_command("pipelines.evaluate", *given, run, f"--output_dir={tmp_path}/b")
    for name in ("model", "a", "b"):
        found = pd.read_csv(tmp_path / name / "per_query.tsv", sep="\t")
        assert found["query"].tolist() == held, name
        np.testing.assert_allclose(
            found["map"].mean(), metrics(tmp_path / name)["test"]["map"]
        )
    same = [f"{tmp_path}/model", f"{tmp_path}/a"]
    assert "12 test queries" in run_command("pipelines.compare", *same).stdout
    run_command("pipelines.fuse", *same, f"--output_dir={tmp_path}/fused")
    lines = (tmp_path / "fused" / "qrels.trec").read_text().splitlines()
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == held
    run_command("pipelines.prepare", *FLAGS, *data, f"--output_dir={tmp_path}/shards")
    found = read_elwc(f"{tmp_path}/shards/test-*")
    assert (found.query_ids, found.doc_ids) == (queries, lists.doc_ids)


@pytest.mark.parametrize("command", ["train", "train_gbm", "evaluate", "experiment"])
def test_two_queries_with_one_name_in_trec_files_are_refused(command, tmp_path):
    queries = ["red shoes", "b", "c", "d", "e", "red%20shoes"]
    lists = dataclasses.replace(make_lists([2] * 6), query_ids=queries)
    frame(tabular(lists)).to_csv(tmp_path / "x.csv", index=False)
    flags = [
        "--dataset=table",
        "--query_column=query",
        f"--train_path={tmp_path}/x.csv",
    ]
    flags += {
        "evaluate": [f"--scores={tmp_path}/none", f"--test_path={tmp_path}/x.csv"],
        "experiment": ["--method=A: train_gbm", "--folds=1", "--seeds=1"],
    }.get(command, [])
    name = "model_dir" if "train" in command else "output_dir"
    done = run_command(
        f"pipelines.{command}", *flags, f"--{name}={tmp_path}/out", check=False
    )
    assert "The queries 'red shoes' and 'red%20shoes' would have the same" in told(done)
    assert not (tmp_path / "out").exists()
