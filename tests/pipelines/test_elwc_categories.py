"""Training, evaluating and ranking on ELWC files with categories, as a user does."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import bad, run_command, train
from tests.elwc_files import with_categories, write
from tests.serving.model_server import serving
from tfr_ext import data

FLAGS = (
    "--flagfile=configs/quickstart.cfg",
    "--model=mlp",
    "--hidden_sizes=8",
    "--num_epochs=2",
    "--min_count=1",
    "--verbose=line",
)
NAMES = (
    "--dataset=elwc",
    "--elwc_features=price",
    "--category_columns=brand,tags,shop,device",
    "--text_columns=title,words",
    "--context_columns=device,words",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three files, and the one to test on without all tags and the first brands."""
    directory = tmp_path_factory.mktemp("files")
    for seed, split in enumerate(("train", "valid", "test")):
        protos = with_categories(60, seed=seed)[1]
        write(directory / f"{split}.tfrecord", protos)
    for number, proto in enumerate(protos):
        for example in proto.examples:
            for name in ("tags", *(["brand"] * (number < 30))):
                example.features.feature.pop(name, None)
    write(directory / "fewer.tfrecord", protos)
    return directory


def paths(files):
    return [f"--{x}_path={files}/{x}.tfrecord" for x in ("train", "valid", "test")]


@pytest.mark.grid
@pytest.mark.parametrize("numbers", ["price", ""])
def test_what_is_trained_is_served(files, tmp_path, numbers):
    flags = [*FLAGS, *NAMES, f"--elwc_features={numbers}", *paths(files)]
    whole, streamed = tmp_path / "whole", tmp_path / "streamed"
    train(*flags, f"--model_dir={whole}")
    train(*flags, "--stream", f"--model_dir={streamed}")
    # One file fits into a run, and then the batches are the same.
    for name in ("metrics.json", "run.trec"):
        assert (whole / name).read_text() == (streamed / name).read_text()
    export = tmp_path / "whole/export/1"
    names = [f"--export={export}", NAMES[0], f"--elwc_features={numbers}"]
    test, found = f"--test_path={files}/test.tfrecord", tmp_path / "evaluated"
    named = [*NAMES, *names, test]  # As in training.
    run_command("pipelines.evaluate", *named, f"--output_dir={found}")
    metrics = (json.loads((x / "metrics.json").read_text()) for x in (found, whole))
    one, other = (each["test"] for each in metrics)
    assert one == pytest.approx(other)
    # The model knows what a file does not say.
    fewer, ranked = files / "fewer.tfrecord", tmp_path / "ranked.csv"
    run_command("pipelines.rank", *names, f"--input={fewer}", f"--output={ranked}")
    with open(ranked) as file:
        scores = {x["doc_id"]: float(x["score"]) for x in csv.DictReader(file)}
    served = tf.saved_model.load(str(export)).signatures["elwc"]
    protos = [x.numpy() for x in tf.data.TFRecordDataset(str(fewer))]
    by_signature = served(examples=tf.constant(protos))["scores"].numpy()
    lists = data.read_elwc(fewer, schema=data.ElwcSchema(["price"]))
    for q, (query, length) in enumerate(zip(lists.query_ids, lists.lengths)):
        expected = [scores[f"{query}-{i + 1}"] for i in range(length)]
        np.testing.assert_allclose(by_signature[q, :length], expected, atol=1e-5)
    assert len({*scores.values()}) > 20
    # Both clients send tokens as they are.
    names = ["--model_name=ranker", *names[1:], f"--input={fewer}"]
    with serving(tmp_path / "whole/export") as server:
        for protocol in ("rest", "grpc"):
            asked = [f"--server={server.address(protocol)}", f"--protocol={protocol}"]
            output = tmp_path / f"{protocol}.csv"
            run_command("pipelines.rank", *asked, *names, f"--output={output}")
            with open(output) as file:
                found = {x["doc_id"]: float(x["score"]) for x in csv.DictReader(file)}
            assert found == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--context_columns=price"],
            "--context_columns names 'price', expected one of",
        ),
        (["--text_columns=titel,words"], "no example has a value of 'titel'"),
        (["--category_columns=brnd,device"], "no example has a value of 'brnd'"),
        (["--category_columns=price,device"], "'price' has two uses"),
    ],
)
def test_wrong_names_are_told(files, tmp_path, flags, told):
    assert told in bad(tmp_path, *FLAGS, *NAMES, *paths(files), *flags)
