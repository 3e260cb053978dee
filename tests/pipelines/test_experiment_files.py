"""The experiment files: flags, candidates and losses, and cells of collections."""

import json
import pathlib

import pytest

from tests import layouts
from tests.commands import run_command

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "experiments"
FILES = sorted(str(path.relative_to(ROOT)) for path in FOLDER.glob("*.cfg"))
PAPER = ("ListNet", "ListMLE", "LambdaLoss", "ListAP", "Approx", "OT", "FastSort")


def read(*arguments):
    """What is in experiment files, by their names."""
    done = run_command("tests.pipelines.checked_experiments", *arguments)
    found = json.loads(done.stdout.splitlines()[-1])
    return {pathlib.Path(path).stem: content for path, content in found.items()}


@pytest.fixture(scope="module")
def contents():
    return read(*FILES)


def test_every_flag_is_known_and_every_loss_builds(contents):
    assert len(contents) == len(FILES) > 20
    for name, content in contents.items():
        assert not content["wrong"], (name, content["wrong"][:3])
        assert content["select_by"] in content["metrics"], name
        assert content["against"] in ("best", *content["methods"]), name


def test_every_file_says_how_it_is_run():
    for path in FILES:
        comment = [x for x in open(ROOT / path) if x.startswith("#")]
        assert f"--flagfile={path}" in "".join(comment), path
        assert f"--output_dir=models/experiments/{pathlib.Path(path).stem}" in "".join(
            comment
        )


def test_the_candidates_are_those_of_the_papers(contents):
    full = contents["smoothi_mq2007"]["methods"]
    # Eight metrics, four slopes, two rates; of Approx, two slopes but for plain NDCG.
    assert full["SmoothI"] == 8 * 4 * 2
    assert full["Approx"] == (1 * 4 + 7 * 4 * 4) * 2
    assert contents["smoothi_web30k"]["methods"] == full
    assert contents["smoothi_yahoo"]["methods"] == full
    for name in ("smoothi_mq2008", "smoothi_mq2007", "smoothi_ohsumed"):
        assert {*PAPER, "SoftSort", "SmoothI"} <= {*contents[name]["methods"]}
    # What two cores bear.
    assert sum(contents["smoothi_mq2008"]["methods"].values()) <= 85
    assert sum(contents["smoothi_ohsumed"]["methods"].values()) <= 22
    for name in ("smoothi_delta", "smoothi_metrics", "pirank_temperature"):
        assert set(contents[name]["methods"].values()) == {1}
    assert len(contents["smoothi_metrics"]["methods"]) == 8
    assert len(contents["wassrank_layers"]["methods"]) == 11
    assert "Pointwise KL (Multinomial)" in contents["kl_covid_mlia"]["methods"]


@pytest.mark.grid
@pytest.mark.parametrize("path", FILES)
def test_every_loss_compiles(path):
    (content,) = read("--trace", path).values()
    assert not content["wrong"], content["wrong"][:3]


@pytest.mark.grid
def test_cells_of_collections_that_are_not_at_hand(contents, tmp_path):
    layouts.write_fold(tmp_path / "MQ2007" / "Fold1", 46)
    layouts.write_fold(tmp_path / "MSLR-WEB30K" / "Fold1", 136, comments=False)
    texts = {
        f"set1.{theirs}.txt": layouts.letor_text(split, 699, comments=False)
        for split, theirs in zip(layouts.SPLITS, ("train", "valid", "test"))
    }
    layouts.write_archive(tmp_path / "ltrc_yahoo.tar.bz2", texts)
    for name in ("wassrank_mq2007", "kl_web30k", "smoothi_yahoo"):
        train_a_cell(contents[name], tmp_path, name)


def train_a_cell(content, directory, name):
    """Trains the first candidate on the first fold for an epoch."""
    run_command(
        "pipelines.train",
        *content["arguments"],
        f"--manual_dir={directory}",
        f"--data_dir={directory}/prepared",
        f"--model_dir={directory}/{name}",
        "--num_epochs=1",
        "--max_label=4",
        "--verbose=silent",
    )
    report = json.loads((directory / name / "metrics.json").read_text())
    assert list(report["test"]) == content["metrics"]
    assert report["epochs"] == 1
