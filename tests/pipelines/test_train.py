"""The training command, run as a user runs it."""

import csv
import importlib.util
import json
import os

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.commands import SMALL, bad, run_command, train
from tests.files import write_letor
from tests.helpers import make_lists, needs_tfr
from tfr_ext import data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    loss = ("--loss_param=", "--loss=list_net_loss")  # Its graph is small.
    return directory, train(*SMALL, *loss, f"--model_dir={directory}")


def test_the_files_of_a_run(run):
    directory, done = run
    with_logs = importlib.util.find_spec("tensorboard") is not None
    assert {
        "checkpoints",
        *["tensorboard"][: int(with_logs)],
        ".written_by_train",
        "flags.cfg",
        "metrics.json",
        "history.tsv",
        "per_query.tsv",
        "run.trec",
        "qrels.trec",
        "run.valid.trec",
        "qrels.valid.trec",
        "curves.png",
        "export",
    } == set(os.listdir(directory))
    logs = list((directory / "tensorboard").rglob("events.out.tfevents.*"))
    assert bool(logs) == with_logs
    with Image.open(directory / "curves.png") as picture:
        assert picture.size[0] > 500
        assert len(set(picture.convert("L").getdata())) > 20
    assert "train: 36 queries, 432 items of 25 features" in done.stdout
    assert "ndcg_10" in done.stdout and "Exported for serving" in done.stdout


def test_the_files_agree_with_each_other(run):
    directory, _ = run
    report = json.loads((directory / "metrics.json").read_text())
    assert report["convention"]["gain"] == "linear"
    with open(directory / "per_query.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == report["queries"]["test"] == 12
    for name, mean in report["test"].items():
        np.testing.assert_allclose(
            np.mean([float(row[name]) for row in rows]), mean, rtol=1e-7
        )
    pytrec_eval = pytest.importorskip("pytrec_eval")
    with open(directory / "run.trec") as file:
        trec_run = pytrec_eval.parse_run(file)
    with open(directory / "qrels.trec") as file:
        qrels = pytrec_eval.parse_qrel(file)
    theirs = {
        "ndcg": "ndcg",
        "ndcg_10": "ndcg_cut_10",
        "ndcg_1": "ndcg_cut_1",
        "precision_5": "P_5",
        "map": "map",
        "mrr": "recip_rank",
    }
    evaluated = pytrec_eval.RelevanceEvaluator(qrels, set(theirs.values())).evaluate(
        trec_run
    )
    for ours, name in theirs.items():
        mean = np.mean([query[name] for query in evaluated.values()])
        np.testing.assert_allclose(report["test"][ours], mean, atol=1e-7)


def test_the_history_has_each_epoch(run):
    directory, _ = run
    state = json.loads((directory / "checkpoints" / "state.json").read_text())
    with open(directory / "history.tsv", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert rows[0] == ["epoch", "loss", "val_loss", "ndcg_10", "val_ndcg_10"]
    assert [row[0] for row in rows[1:]] == ["1", "2", "3"]
    for name, *column in zip(*rows):
        if name != "epoch":
            np.testing.assert_allclose(
                np.float64(column), state["history"][name], rtol=1e-8
            )


def test_the_export_gives_the_scores_of_the_run(run):
    directory, _ = run
    lists = data.synthetic_lists(60, 12, shared_columns=True, seed=1)
    served = tf.saved_model.load(str(directory / "export" / "1"))
    with open(directory / "run.trec") as file:
        ranked = {(row.split()[0], row.split()[2]): row.split()[4] for row in file}
    for q in {query for query, _ in ranked}:
        chosen = lists.select([lists.query_ids.index(q)])
        scores = served.signatures["serving_default"](
            tf.constant(chosen.features[np.newaxis])
        )["scores"][0]
        for i, score in enumerate(scores.numpy()):
            written = np.float32(ranked[q, f"{q}-{i + 1}"])
            np.testing.assert_allclose(written, score, rtol=1e-5, atol=1e-6)


@pytest.mark.grid
def test_the_same_seed_gives_the_same_result_and_flags_cfg_reproduces(run, tmp_path):
    directory, _ = run
    train(f"--flagfile={directory}/flags.cfg", f"--model_dir={tmp_path}")
    for name in ("metrics.json", "run.trec", "per_query.tsv", "history.tsv"):
        assert (tmp_path / name).read_text() == (directory / name).read_text()
    other = tmp_path / "other"
    train(f"--flagfile={directory}/flags.cfg", f"--model_dir={other}", "--seed=2")
    assert (other / "run.trec").read_text() != (directory / "run.trec").read_text()


@needs_tfr
def test_one_text_file_with_a_loss_of_tfr_and_early_stopping(tmp_path):
    lists = make_lists([5, 3, 8, 2] * 10, num_features=4)
    write_letor(tmp_path / "all.txt", lists)
    done = train(
        "--flagfile=configs/text.cfg",
        f"--train_path={tmp_path}/all.txt",
        f"--model_dir={tmp_path}/model",
        "--loss_param=",
        "--loss=approx_ndcg_loss",
        "--loss_param=temperature=0.5",
        "--hidden_sizes=4,3",
        "--early_stopping_patience=2",
        "--monitor=arp",
        "--num_epochs=30",
        "--learning_rate_schedule=cosine:2",
        "--list_size=4",
        "--metrics=ndcg_3,map",
        "--verbose=silent",
        "--noexport_model",
        "--nodraw_curves",
    )
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert list(report["test"]) == ["ndcg_3", "map"]
    assert report["queries"] == {"valid": 8, "test": 8}
    assert report["epochs"] == min(30, report["best_epoch"] + 2)
    assert "--list_size=4 cut" in done.stdout and "training lists" in done.stdout
    first = (tmp_path / "model" / "run.trec").read_text().split()[2]
    assert first.startswith("D")


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--loss=smoothy_loss"], ["'smoothy_loss'", "did you mean 'smoothi_loss'"]),
        (["--loss_param=aplha=1"], ["'aplha'", "did you mean 'alpha'"]),
        (["--loss_param=alpha"], ["--loss_param", "name=value", "'alpha'"]),
        (["--loss_param=alpha=-1"], ["`alpha`", "(0, 1e+30)", "-1"]),
        (["--loss_schedule=alpha"], ["--loss_schedule", "NAME:FORM", "'alpha'"]),
        (["--loss_schedule=alpha:cosine"], ["'cosine'", "'exponential:FACTOR'"]),
        (["--loss_schedule=aplha:linear:2"], ["'aplha'", "did you mean 'alpha'"]),
        (["--loss_schedule=delta:linear:0.2"], ["'delta'", "schedules of: alpha"]),
        (
            ["--loss_schedule=alpha:exponential:1e9", "--num_epochs=4"],
            [
                "step 4 of its schedule",
                "Steps are counted in epochs",
                "`alpha`",
                "(0, 1e+30)",
            ],
        ),
        (["--metrics=ndgc_10"], ["'ndgc_10'", "ndcg"]),
        (["--monitor=loss"], ["'loss'"]),
        (["--learning_rate_schedule=linear"], ["'linear'", "cosine"]),
        (["--optimizer=adma"], ["adma"]),
        (["--hidden_sizes=12,x"], ["hidden_sizes", "'x'"]),
        (["--num_epoch=3"], ["num_epoch", "num_epochs"]),
        (["--dataset=text"], ["--train_path"]),
        (["--train_path=x.txt"], ["--dataset=text"]),
        (["--dataset=text", "--train_path=none.txt"], ["none.txt"]),
        (["--gain=cubic"], ["gain", "exponential"]),
        (["stray"], ["stray"]),
        (["--metrics="], ["--metrics"]),
        (["--relevance_threshold=0"], ["relevance_threshold", "positive"]),
        (["--max_label=-1"], ["max_label", "positive"]),
        (["--synthetic_query_features=30"], ["--synthetic_query_features=30"]),
        (["--dataset=text", "--train_path=/"], ["/ is a directory"]),
        pytest.param(
            ["--loss=approx_ndcg_loss", "--loss_param=temperature=abc"],
            ["--loss=approx_ndcg_loss", "--loss_param=temperature=abc"],
            marks=needs_tfr,
        ),
        (
            ["--loss_param=alpha=3", "--loss=list_net_loss"],
            ["no parameter 'alpha'", "--loss_param= drops those before it"],
        ),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_bad_flags_are_told_and_nothing_is_written(tmp_path, flags, told):
    message = bad(tmp_path, *flags)
    for part in told:
        assert part in message


def test_a_bad_line_is_told_with_file_and_line(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:abc\n")
    message = bad(tmp_path, "--dataset=text", f"--train_path={path}")
    assert f"{path}:2" in message and "abc" in message


@pytest.mark.first_case
@pytest.mark.parametrize(
    "loss", [pytest.param("mean_squared_loss", marks=needs_tfr), "smoothi_loss"]
)
def test_a_loss_that_is_not_finite_is_told(tmp_path, loss):
    message = bad(
        tmp_path,
        *SMALL,
        "--nobatch_normalization",
        f"--loss={loss}",
        "--optimizer=sgd",
        "--learning_rate=1e30",
    )
    assert "The loss became" in message and "--learning_rate" in message


def test_help_lists_the_flags():
    for module in ("pipelines.train", "pipelines.evaluate"):
        done = run_command(module, "--helpshort", check=False)
        for flag in ("--dataset", "--metrics", "--seed"):
            assert flag in done.stdout
