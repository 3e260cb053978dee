"""`flags.cfg`: the same run is known again, whoever wrote it and in which words."""

import dataclasses

import pytest

from tests.training.old_run import OLD, SAME
from tfr_ext.training import DataConfig, LossConfig, TrainingConfig, run_file


def test_a_run_of_an_older_version_is_the_same_run():
    assert run_file.is_of_training(OLD) and run_file.data_digest(OLD) == "0" * 64
    assert run_file.differences(OLD, SAME) == []
    elsewhere = dataclasses.replace(SAME, model_dir="b", verbose="bar", overwrite=True)
    assert run_file.differences(OLD, elsewhere) == []


def other(part, **changes):
    return dataclasses.replace(
        SAME, **{part: dataclasses.replace(getattr(SAME, part), **changes)}
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (dataclasses.replace(SAME, batch_size=16), "`batch_size=8` then, `batch_s"),
        (dataclasses.replace(SAME, jit_compile=True), "`jit_compile=False` then, `j"),
        (
            dataclasses.replace(SAME, steps_per_execution=4),
            "`steps_per_execution=1` then, `steps_per_execution=4` now",
        ),
        (other("data", seed=2), "`seed=1` then, `seed=2` now"),
        (other("data", list_size=3), "(not set) then, `list_size=3` now"),
        (other("model", hidden_sizes=()), "`hidden_sizes=(8, 4)` then, `hidden_siz"),
        (other("loss", schedules={}), "`schedules['alpha']='linear:5'` then, (not"),
        (
            other("loss", params={"alpha": 2}),
            "`params['alpha']=1` `params['metric']='ndcg'` `params['topn']=None` "
            "then, `params['alpha']=2` now",
        ),
        (other("evaluation", metrics="map"), "`metrics=('ndcg_10', 'map')` then"),
    ],
)
def test_what_differs_is_told(config, told):
    (line,) = run_file.differences(OLD, config)
    assert line.startswith(told), line


def test_what_nobody_knows_any_more_differs():
    (line,) = run_file.differences(f"{OLD}--sharpness=2\n", SAME)
    assert line == "sharpness=2 then, (not set) now"


def test_what_is_written_reads_back():
    odd = dataclasses.replace(
        SAME,
        data=DataConfig(
            dataset="text",
            train_path=["a b.txt", 'x,"y".txt'],
            label_weights=(-1, 1 / 3, 1),
            binarize_labels=0.1,
        ),
        loss=LossConfig(
            "softmax_loss", {"a": "'", "b": "2", "c": [0, 0.5], "d": 1 / 3}, ""
        ),
    )
    for config in (SAME, odd, TrainingConfig()):
        text = run_file.of_training(config, "1" * 64)
        assert run_file.differences(text, config) == []
        assert run_file.data_digest(text) == "1" * 64
    assert run_file.differences(run_file.of_training(SAME, ""), odd)
