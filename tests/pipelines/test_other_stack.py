"""A model exported on one stack, evaluated on the other."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.commands import ROOT, SMALL, train

pytestmark = pytest.mark.stack_b


def scores(path):
    with open(path) as file:
        rows = [line.split() for line in file]
    return {(row[0], row[2]): float(row[4]) for row in rows}


def test_an_export_gives_the_same_scores_on_the_other_stack(tmp_path):
    other = os.environ.get("TFR_EXT_OTHER_PYTHON")
    if not other:
        pytest.skip("TFR_EXT_OTHER_PYTHON names no Python with the other TensorFlow")
    # The one stack needs this variable, which tfr_ext sets, and the other refuses it.
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    versions = [
        subprocess.run(
            [
                *(python, "-c"),
                "from importlib import metadata; print(metadata.version('tensorflow'))",
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
        ).stdout
        for python in (sys.executable, other)
    ]
    assert versions[0] != versions[1] and all(versions)
    train(*SMALL, f"--model_dir={tmp_path}/model")
    done = subprocess.run(
        [
            *(other, "-m", "pipelines.evaluate"),
            "--synthetic_num_queries=60",
            "--synthetic_list_size=12",
            "--seed=1",
            "--gain=linear",
            f"--export={tmp_path}/model/export",
            f"--output_dir={tmp_path}/evaluated",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    here = scores(tmp_path / "model" / "run.trec")
    there = scores(tmp_path / "evaluated" / "run.trec")
    assert here.keys() == there.keys()
    np.testing.assert_allclose(
        list(here.values()), [there[k] for k in here], rtol=1e-4, atol=1e-6
    )
