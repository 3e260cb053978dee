"""`flags.cfg`: the same run is known again, whoever wrote it and in which words."""

import dataclasses

import pytest

from tests.training.changed_settings import OTHER
from tfr_ext.runs import run_file
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    TrainingConfig,
)

WRITTEN = run_file.of_training(OTHER, "0" * 64)


def test_settings_that_say_how_to_run_make_no_other_run():
    assert run_file.is_of_training(WRITTEN, "train")
    assert run_file.data_digest(WRITTEN) == "0" * 64
    assert run_file.differences(WRITTEN, OTHER) == []
    elsewhere = dataclasses.replace(OTHER, model_dir="b", verbose="bar", overwrite=True)
    assert run_file.differences(WRITTEN, elsewhere) == []


def other(part, **changes):
    return dataclasses.replace(
        OTHER, **{part: dataclasses.replace(getattr(OTHER, part), **changes)}
    )


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (dataclasses.replace(OTHER, batch_size=16), "`batch_size=8` then, `batch_s"),
        (
            dataclasses.replace(OTHER, jit_compile=True),
            "`jit_compile=False` then, `j",
        ),
        (
            dataclasses.replace(OTHER, steps_per_execution=4),
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
    (line,) = run_file.differences(WRITTEN, config)
    assert line.startswith(told), line


def test_what_nobody_knows_any_more_differs():
    (line,) = run_file.differences(f"{WRITTEN}--sharpness=2\n", OTHER)
    assert line == "sharpness=2 then, (not set) now"


def test_what_is_written_reads_back():
    odd = dataclasses.replace(
        OTHER,
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
    for config in (OTHER, odd, TrainingConfig()):
        text = run_file.of_training(config, "1" * 64)
        assert run_file.differences(text, config) == []
        assert run_file.data_digest(text) == "1" * 64
    assert run_file.differences(run_file.of_training(OTHER, ""), odd)
