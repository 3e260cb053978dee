"""Queries that are held out of the training data: a share of them, never by mistake."""

import dataclasses

import pytest

from tests.commands import run_command, told
from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext.sources import data_splits
from tfr_ext.training import DataConfig


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("dataset", ["elwc", "synthetic", "table", "text"])
def test_a_share_of_0_is_refused_before_anything_is_read(dataset, split):
    config = DataConfig(dataset=dataset, **{f"{split}_fraction": 0})
    if dataset != "synthetic":
        config = dataclasses.replace(config, train_path="/nowhere/a.csv")
    with pytest.raises(ValueError, match=f"^`{split}_fraction=0` .*`{split}_path`"):
        data_splits.load(config)


def test_a_share_of_0_is_fine_where_none_is_held_out(tmp_path):
    lists = make_lists([3] * 6)
    for name in ("train", "other"):
        write_letor(tmp_path / name, lists)
    paths = {"train_path": str(tmp_path / "train"), "dataset": "text"}
    other = str(tmp_path / "other")
    given = DataConfig(valid_fraction=0, valid_path=other, **paths)
    counts = [getattr(data_splits.load(given), x).num_lists for x in ("train", "valid")]
    assert counts == [5, 6]
    given = DataConfig(valid_fraction=0, test_fraction=0, test_path=other, **paths)
    assert data_splits.load_test(given, None)["test"].num_lists == 6
    small = dataclasses.replace(given, valid_fraction=0.01)
    assert data_splits.load(small).valid.num_lists == 1  # At least one, if any.


def test_a_test_of_queries_that_a_model_may_know_is_told(tmp_path, capsys):
    write_letor(tmp_path / "train", make_lists([3] * 20))
    given = DataConfig(dataset="text", train_path=str(tmp_path / "train"), seed=5)
    trained = [data_splits.load(given).held_out]
    assert trained == [{"data_seed": 5, "valid_fraction": 0.2, "test_fraction": 0.2}]
    other = dataclasses.replace(given, test_path=given.train_path)
    assert data_splits.load(other).held_out == {}
    told = "not the part that was in training (%s)."
    for config, known, expected in (
        (given, trained, ""),
        (dataclasses.replace(given, seed=1, data_seed=5), trained, ""),
        (other, trained, ""),
        (given, [], ""),
        (DataConfig(seed=2), trained, ""),  # New lists are drawn.
        (dataclasses.replace(given, seed=6), trained, told % "--data_seed=5 --valid_f"),
        (
            dataclasses.replace(given, test_fraction=0.5),
            trained,
            told % "--data_seed=5",
        ),
        (given, [{}], told % "there, the test had its own files"),
    ):
        capsys.readouterr()
        data_splits.load_test(config, None, trained=known)
        printed = capsys.readouterr().out
        assert ("Warning: A part of the training" in printed) == bool(expected)
        assert expected.split(" --")[0].rstrip(".)") in printed


@pytest.mark.first_case()
@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("command", ["train", "train_gbm", "prepare"])
def test_commands_name_the_flag(command, split, tmp_path):
    out = "output_dir" if command == "prepare" else "model_dir"
    write_letor(tmp_path / "train", make_lists([3] * 6))
    done = run_command(
        f"pipelines.{command}",
        *("--dataset=text", f"--train_path={tmp_path / 'train'}"),
        *(f"--{split}_fraction=0", f"--{out}={tmp_path / 'out'}"),
        check=False,
    )
    words = f"--{split}_fraction=0 holds out no query to "
    assert words in told(done) and f"give --{split}_path, or" in done.stderr
