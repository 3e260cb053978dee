"""Tables with categories by the commands: what is trained, ranked, printed, refused."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.commands import bad, rows_of, run_command, told, train
from tests.pipelines.task_processes import assert_same_run
from tests.tables import SMALL

pytest.importorskip("pyarrow")
FLAGS = (
    "--dataset=table",
    "--category_columns=brand,shop,sku,device",
    "--text_columns=title,query_id",
    "--context_columns=device,age,query_id",
)


def frame(seed):
    """60 lists of 5 items; the label depends on the brand."""
    rng = np.random.default_rng(seed)
    count, query = 300, np.repeat(np.arange(60), 5)
    brand = rng.integers(0, 9, count)
    return pd.DataFrame(
        {
            "query_id": [f"{seed}q{i}" for i in query],
            "price": rng.normal(size=count),
            "brand": np.array(["007", "NA", "Ö", "", "e", "f", "g", "h", "i"])[brand],
            "shop": rng.choice(["7", "7.0", "8", ""], count),
            "sku": [f"{seed}s{i}" for i in range(count)],
            "device": np.array(["phone", "desk", ""])[query % 3],
            "age": (query % 7).astype(float),
            "title": [f"Not a NUMBER {x}" for x in brand],
            "notes": "not a number",
            "label": (brand % 3),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("categories")
    for seed, split in enumerate(("train", "valid", "test")):
        df = frame(seed)
        if split == "test":  # Half of its brands are new.
            df["brand"] = df["brand"].where(df.index % 2 == 0, "new")
        df.to_csv(directory / f"{split}.csv", index=False)
    df = df.assign(shop=pd.to_numeric(df["shop"]))
    df.to_parquet(directory / "test.parquet")
    df = df.astype(object).where(df.notna(), None)
    lines = [json.dumps(row) for row in df.to_dict("records")]
    (directory / "test.jsonl").write_text("\n".join(lines))
    return directory


@pytest.fixture(scope="module")
def run(files):
    paths = [f"--{split}_path={files}/{split}.csv" for split in ("train", "valid")]
    paths += [f"--test_path={files}/test.csv", f"--model_dir={files}/model"]
    given = [*FLAGS, *SMALL, *paths, "--num_models=2"]
    return given, train(*given).stdout


def test_training_says_what_columns_became_once(files, run):
    given, printed = run
    assert (
        "Features: price, age. Categories: brand, shop, sku, device. Texts: title, "
        "query_id. Of the context: age, device, query_id. Not used, as they are not "
        "numbers: notes. (Choose others with --feature_columns.)"
    ) in printed
    values = pd.read_csv(files / "test.csv", keep_default_na=False)["brand"]
    share = (values == "new").sum() / (values != "").sum()
    for line in (
        "brand (a category): 8 values in the vocabulary; 0% of those in valid and "
        f"{share:.0%} in test are not.",
        "shop (a category of whole numbers): 2 values in the vocabulary; 0% of",
        "sku (a category): 0 values in the vocabulary; 100% of those in valid and ",
        "device (a category, of the list): 2 values in the vocabulary; 0% of those in",
        "title (a text, 16 words): 12 values in the vocabulary; 0% of those in valid",
        "query_id (a text, 16 words, of the list): 12 values in the vocabulary; 100%",
        "Warning: Category 'sku': 100% of its values in training occur once, as",
    ):
        assert printed.count(line) == 1, line
    assert "Warning: Category 'brand'" not in printed
    again = train(*given).stdout
    assert "vocabulary" not in again and "Category" not in again


def test_an_export_evaluates_tables(files, run, tmp_path):
    """By the flags of the training, and without them, as it knows its columns."""
    expected = json.loads((files / "model" / "metrics.json").read_text())["test"]
    for flags, ending in ((FLAGS, "csv"), (FLAGS[:1], "parquet")):
        given = [*flags, f"--test_path={files}/test.{ending}", "--metrics=ndcg_10"]
        given.append(f"--output_dir={tmp_path}/{ending}")
        run_command("pipelines.evaluate", f"--export={files}/model/export", *given)
        found = json.loads((tmp_path / ending / "metrics.json").read_text())["test"]
        np.testing.assert_allclose(found["ndcg_10"], expected["ndcg_10"], rtol=1e-5)
    given = [f"--export={files}/model/export", FLAGS[0], "--metrics=ndcg_10"]
    given.append(f"--train_path={files}/train.csv")  # A part of which is held out.
    printed = run_command("pipelines.evaluate", *given).stdout
    assert "Warning: A part of the training queries is held out to test on" in printed


def test_an_export_ranks_tables_of_every_format(files, run, tmp_path):
    export, ranked = f"--export={files}/model/export", []
    for ending in ("csv", "parquet", "jsonl"):
        path, output = f"{files}/test.{ending}", tmp_path / f"{ending}.run"
        given = [export, f"--input={path}", f"--output={output}"]
        printed = run_command("pipelines.rank", *given).stdout
        head = f"Ranked 60 queries, 300 items. Written: {output}\nbrand: 5"
        assert printed.startswith(head)
        line = "\nshop: 0% of the values are not in the vocabulary.\nsku: 100% of the "
        assert line in printed and "there is no value" not in printed
        ranked.append(output.read_text())
    assert ranked[0] == ranked[1] == ranked[2]
    path = tmp_path / "without.csv"
    pd.read_csv(f"{files}/test.csv").assign(sku="").to_csv(path, index=False)
    given = [export, f"--input={path}", f"--output={tmp_path}/without.run"]
    assert "\nsku: there is no value.\n" in run_command("pipelines.rank", *given).stdout


def test_an_export_ranks_the_shards_of_tables(files, run, tmp_path):
    """By the manifest beside them, without which nobody knows what the ids are of."""
    export, ranked = f"--export={files}/model/export", []
    shards = tmp_path / "shards"
    paths = [f"--{split}_path={files}/{split}.csv" for split in ("train", "test")]
    run_command("pipelines.prepare", *FLAGS, *paths, f"--output_dir={shards}")
    for path in (files / "test.csv", shards / "test-00000-of-00001.tfrecord"):
        given = [f"--input={path}", f"--output={tmp_path}/new.run", "--overwrite"]
        printed = run_command("pipelines.rank", export, *given).stdout
        ranked.append((printed, *rows_of(tmp_path / "new.run")))
    assert ranked[0][:2] == ranked[1][:2]
    np.testing.assert_allclose(ranked[0][2], ranked[1][2], rtol=1e-4, atol=1e-6)
    text = shutil.copy(path, tmp_path)
    given = [f"--input={text}", f"--output={tmp_path}/new.run", "--overwrite"]
    done = run_command("pipelines.rank", export, *given, check=False)
    assert "but no manifest beside them says what their features are" in told(done)
    done = run_command(
        "pipelines.rank", export, f"--input={path},{text}", *given[1:], check=False
    )
    assert f"{text}: expected features as in" in told(done)
    # The same columns, in another order.
    given = [*FLAGS, "--feature_columns=age,price", *paths]
    given.append("--context_columns=device,query_id")
    run_command("pipelines.prepare", *given, f"--output_dir={tmp_path}/others")
    path = tmp_path / "others" / "test-00000-of-00001.tfrecord"
    given = [f"--input={path}", f"--output={tmp_path}/new.run", "--overwrite"]
    done = run_command("pipelines.rank", export, *given, check=False)
    assert "The numbers of the lists are ['age', 'price'], in this order" in told(done)


def test_what_an_export_does_not_take_is_refused(files, run, tmp_path):
    export = f"--export={files}/model/export"
    given = [export, f"--input={tmp_path}/new.csv", f"--output={tmp_path}/new.run"]
    df = pd.read_csv(files / "test.csv", dtype=str, keep_default_na=False)
    df.assign(shop="7.5").to_csv(tmp_path / "new.csv", index=False)
    done = run_command("pipelines.rank", *given, check=False)
    assert "new.csv:2: row 0: column 'shop' is '7.5', expected a whole" in told(done)
    done = run_command("pipelines.rank", *given, "--feature_columns=x", check=False)
    assert "takes no feature 'x'. It takes: 'price'" in told(done)
    text = tmp_path / "new.txt"
    text.write_text("1 qid:7 1:0.5 2:1\n")
    given = [export, f"--input={text}", f"--output={tmp_path}/new.run"]
    done = run_command("pipelines.rank", *given, check=False)
    assert (
        "The categories of the lists are [], but those that the model takes are ['"
        in (told(done))
    )


def test_what_is_wrong_is_told_by_file_row_and_column(files, tmp_path):
    df = pd.read_csv(files / "train.csv", dtype=str, keep_default_na=False)
    path = tmp_path / "train.csv"
    given = [*FLAGS, *SMALL, f"--train_path={path}", f"--valid_path={tmp_path}/b.csv"]
    df.to_csv(path, index=False)
    wrong = df["shop"].where(df.index != 7, "7.5")
    df.assign(shop=wrong, query_id="b", device="", age=1).to_csv(
        tmp_path / "b.csv", index=False
    )
    assert f"{tmp_path}/b.csv:9: row 7: column 'shop' is '7.5', expected a" in bad(
        tmp_path, *given
    )
    for flags, error in (
        (
            ["--category_columns=colour"],
            "train.csv: There is no column 'colour'. Found",
        ),
        (["--context_columns=notes"], "'notes' is named as context, but is no feature"),
        (["--category_columns=label"], "Column 'label' has two uses."),
        (["--context_columns=brand"], "train.csv:3: row 1: column 'brand' is '"),
    ):
        assert error in bad(tmp_path, *given, *flags), flags


@pytest.mark.grid
def test_shards_are_streamed_as_the_table_trains(files, tmp_path):
    paths = [f"--{x}_path={files}/{x}.csv" for x in ("train", "valid", "test")]
    train(*FLAGS, *SMALL, *paths, f"--model_dir={tmp_path}/table")
    shards = tmp_path / "shards"
    run_command("pipelines.prepare", *FLAGS, *paths, f"--output_dir={shards}")
    given = ["--dataset=elwc", f"--data_dir={shards}", "--stream", *SMALL]
    train(*given, f"--model_dir={tmp_path}/streamed")
    assert_same_run(tmp_path / "streamed", tmp_path / "table")


@pytest.mark.grid
def test_two_replicas_train_as_one(files, tmp_path):
    paths = [f"--{split}_path={files}/{split}.csv" for split in ("train", "test")]
    given = [*FLAGS, *SMALL, *paths, f"--valid_path={files}/valid.csv", "--dropout=0"]
    for name, more in {
        "one": (),
        "two": ("--strategy=mirrored", "--logical_cpus=2"),
    }.items():
        train(*given, *more, f"--model_dir={tmp_path}/{name}")
    assert_same_run(tmp_path / "two", tmp_path / "one")
