"""The evaluation command, on exports and runs of the training command."""

import functools
import json

import numpy as np
import pytest

from tests.conftest import make_lists, run_command
from tests.pipelines.test_train import train, write_letor

evaluate = functools.partial(run_command, "pipelines.evaluate")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model trained on text, with ties of constant features and empty lists."""
    directory = tmp_path_factory.mktemp("run")
    lists = make_lists([5, 1, 8, 3, 12] * 8, num_features=4, seed=3)
    lists.features[::3] = 0.5
    lists.labels[: lists.row_splits[6]] = 0
    lists.labels[lists.row_splits[12]] = 4  # The test lists have no such label.
    for split, chosen in (
        ("train", range(20)),
        ("valid", range(20, 30)),
        ("test", [0, 1, 2, *range(30, 40)]),
    ):
        write_letor(directory / f"{split}.txt", lists.select(list(chosen)))
    train(
        "--flagfile=configs/text.cfg",
        *(f"--{s}_path={directory}/{s}.txt" for s in ("train", "valid", "test")),
        f"--model_dir={directory}/model",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--empty_list=skip",
        "--verbose=silent",
    )
    return directory


@pytest.mark.parametrize("source", ["version", "versions", "run"])
def test_the_metrics_of_the_training_command_again(run, tmp_path, source):
    model = run / "model"
    flags = {
        "version": [f"--export={model}/export/1", f"--output_dir={tmp_path}"],
        "versions": [f"--export={model}/export", f"--output_dir={tmp_path}"],
        # Of a run nobody knows what it was trained on.
        "run": [
            f"--run={model}/run.trec",
            f"--output_dir={tmp_path}",
            "--max_label=4",
        ],
    }[source]
    done = evaluate(
        "--dataset=text", f"--test_path={run}/test.txt", "--empty_list=skip", *flags
    )
    expected = json.loads((model / "metrics.json").read_text())
    report = json.loads((tmp_path / "metrics.json").read_text())
    assert report["convention"] == expected["convention"]
    assert report["convention"]["max_label"] == 4
    assert report["test"].keys() == expected["test"].keys()
    for name, value in expected["test"].items():
        np.testing.assert_allclose(report["test"][name], value, rtol=1e-12)
        assert f"{value:.4f}" in done.stdout
    assert (tmp_path / "per_query.tsv").read_text() == (
        model / "per_query.tsv"
    ).read_text()
    if source != "run":
        ours = (tmp_path / "run.trec").read_text().replace("tfr_ext", "smoothi_loss")
        assert ours == (model / "run.trec").read_text()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], ["--export", "--run"]),
        (["--export=x", "--run=y"], ["--export", "--run"]),
        (["--export=nowhere"], ["nowhere"]),
        (["--run=nowhere"], ["nowhere"]),
        (["--dataset=text", "--run=x"], ["--test_path"]),
        (["--metrics=ndgc", "--run=x"], ["ndgc"]),
        (["--export={export}"], ["4 features", "have 25"]),
        (["--export={export}", "--dataset=text", "--test_path={wide}"], ["5 is out"]),
        (
            ["--export={export}", "--dataset=text", "--test_path={wide}",
             "--num_features=5"],
            ["--num_features=5", "4 features"],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_bad_flags_are_told(run, tmp_path, flags, told):
    wide = tmp_path / "wide.txt"
    wide.write_text("1 qid:1 5:1\n")
    known = {"export": run / "model" / "export", "wide": wide}
    done = evaluate(*(flag.format(**known) for flag in flags), check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    for part in told:
        assert part in done.stderr
