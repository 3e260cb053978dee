"""Runs that are killed, run again, or met by another configuration."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.commands import ROOT, SMALL, train

pytestmark = pytest.mark.grid

FLAGS = (
    *SMALL,
    "--num_epochs=8",
    "--dropout=0.3",
    "--learning_rate_schedule=cosine:1",
    "--early_stopping_patience=4",
    "--loss_schedule=alpha:exponential:1.3",
    "--label_sampling=epoch",
    "--feature_transforms=log1p,standard",
)
RESULTS = ("metrics.json", "history.tsv", "run.trec", "per_query.tsv", "qrels.trec")


def results(directory):
    return {name: (directory / name).read_text() for name in RESULTS}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    start = time.monotonic()
    train(*FLAGS, f"--model_dir={directory}")
    return directory, time.monotonic() - start


def start(directory):
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.train", *FLAGS, f"--model_dir={directory}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_killed_at_chosen_epochs(undisturbed, tmp_path):
    """Killed in the middle of epochs 1, 2 and 4, then left to finish."""
    directory = tmp_path / "model"
    for epoch in (1, 2, 4):
        process = start(directory)
        for line in process.stdout:
            begun = re.match(r"Epoch (\d+)/", line)
            if begun and int(begun[1]) >= epoch:
                process.send_signal(signal.SIGKILL)
                break
        else:
            pytest.fail(f"epoch {epoch} never began")
        process.wait()
        process.stdout.close()
        assert not (directory / "metrics.json").exists()
    done = train(*FLAGS, f"--model_dir={directory}")
    # An epoch may be over before the signal arrives, hardly all that are left.
    assert re.search("Going on after epoch [3-6].", done.stdout)
    assert results(directory) == results(undisturbed[0])
    state = json.loads((directory / "checkpoints" / "state.json").read_text())
    expected = undisturbed[0] / "checkpoints" / "state.json"
    assert state == json.loads(expected.read_text())


def test_killed_at_random_moments(undisturbed, tmp_path):
    """How many kills, TFR_EXT_KILLS says; the moments spread over a whole run."""
    directory, seconds = tmp_path / "model", undisturbed[1]
    rng = random.Random()
    for _ in range(int(os.environ.get("TFR_EXT_KILLS", "2"))):
        process = start(directory)
        try:
            process.communicate(timeout=rng.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
    train(*FLAGS, f"--model_dir={directory}")
    assert results(directory) == results(undisturbed[0])
    exports = os.listdir(directory / "export")
    assert exports and not [name for name in exports if not name.isdigit()]


def test_a_finished_run_does_nothing(undisturbed):
    directory, _ = undisturbed
    before = {p: p.stat().st_mtime_ns for p in directory.rglob("*")}
    done = train(*FLAGS, f"--model_dir={directory}", "--verbose=silent")
    assert "is finished" in done.stdout
    assert before == {p: p.stat().st_mtime_ns for p in directory.rglob("*")}


def test_another_configuration_is_refused_with_the_difference(undisturbed, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(undisturbed[0], directory)
    other = ("--seed=7", "--nobatch_normalization", "--loss_param=alpha=2")
    done = train(*FLAGS, f"--model_dir={directory}", *other, check=False)
    assert done.returncode != 0
    for line in (
        "--seed=1 then, --seed=7 now",
        "--batch_normalization then, --nobatch_normalization now",
        "(not set) then, --loss_param=alpha=2 now",
        "--overwrite",
    ):
        assert line in done.stderr
    assert results(directory) == results(undisturbed[0])
    train(*FLAGS, f"--model_dir={directory}", *other, "--overwrite")
    report = json.loads((directory / "metrics.json").read_text())
    assert report["seed"] == 7
    # A version may be served: it stays.
    assert sorted(os.listdir(directory / "export")) == ["1", "2"]
