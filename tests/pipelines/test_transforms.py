"""Feature transforms, labels and cut lists, by the flags of the commands."""

import dataclasses
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import ROOT, run_command, train
from tests.files import write_letor
from tests.helpers import (
    assert_within,
    make_lists,
    metric_ranges,
    scores_of_run,
    small_fitter,
    with_distributions,
)
from tfr_ext import data, evaluation, models
from tfr_ext.training import LossConfig, lists_datasets

FORMS = ["log1p", "query_minmax", "standard", "clip:-3:3"]
LABELS = ("--binarize_labels=2", "--relevance_threshold=1")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """All of it in one run: lists of up to 12 items, cut to 6 in training."""
    directory = tmp_path_factory.mktemp("run")
    lists = make_lists([5, 1, 8, 3, 12] * 8, num_features=4, seed=3)
    lists.features[:, 2] = np.round(1e5 * np.exp(3 * lists.features[:, 2]))
    parts = {
        "train": lists.select(list(range(20))),
        "valid": lists.select(list(range(20, 30))),
        "test": lists.select(list(range(30, 40))),
    }
    for split, part in parts.items():
        write_letor(directory / f"{split}.txt", part)
    done = train(
        "--flagfile=configs/text.cfg",
        *(f"--{s}_path={directory}/{s}.txt" for s in parts),
        f"--model_dir={directory}/model",
        f"--feature_transforms={','.join(FORMS)}",
        "--list_size=6",
        "--first_stage_feature=2",
        "--loss=pointwise_kl_binomial_loss",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--verbose=silent",
        "--nodraw_curves",
        *LABELS,
    )
    return directory, parts, done.stdout


def test_what_is_done_is_told(run):
    directory, parts, told = run
    assert "Labels: 1 from 2 up, else 0." in told
    assert "Using --loss_param=max_label=1, as none is given." in told
    lists = parts["train"]
    relevant = lists.labels >= 2
    left_out = []
    for start, end in zip(lists.row_splits, lists.row_splits[1:]):
        first_stage = lists.features[start:end, 1].round(6)
        left_out += (start + np.argsort(-first_stage, kind="stable")[6:]).tolist()
    kept = np.delete(relevant, left_out)
    assert f"labels 0:{(~kept).sum()} 1:{kept.sum()}" in told
    assert (
        f"--list_size=6 cut 8 of 20 training lists to the items with the highest "
        f"feature 2; {len(left_out)} of {lists.num_items} items are left out, "
        f"including {relevant[left_out].sum()} of {relevant.sum()} relevant ones."
    ) in told
    assert "Warning" not in told
    flags = (directory / "model" / "flags.cfg").read_text()
    assert f"--feature_transforms={','.join(FORMS)}" in flags


def test_lists_are_not_cut_in_evaluation(run):
    directory, parts, _ = run
    rows = (directory / "model" / "run.trec").read_text().splitlines()
    assert len(rows) == parts["test"].num_items
    counts = np.unique([row.split()[0] for row in rows], return_counts=True)
    assert dict(zip(*counts)) == dict(
        zip(parts["test"].query_ids, parts["test"].lengths)
    )
    assert max(counts[1]) == 12


@pytest.mark.two_graphs
def test_the_export_takes_raw_features_and_gives_the_same_metrics(run, tmp_path):
    directory, parts, _ = run
    done = run_command(
        "pipelines.evaluate",
        "--dataset=text",
        f"--test_path={directory}/test.txt",
        f"--export={directory}/model/export",
        f"--output_dir={tmp_path}",
        *LABELS,
    )
    assert "Labels: 1 from 2 up, else 0." in done.stdout
    expected = json.loads((directory / "model" / "metrics.json").read_text())
    report = json.loads((tmp_path / "metrics.json").read_text())
    for name in ("convention", "labels"):
        assert report[name] == expected[name]
    assert report["convention"]["max_label"] == 1
    test = data.read_letor(f"{directory}/test.txt", 4)
    judged = dataclasses.replace(test, labels=np.float32(test.labels >= 2))
    scores = scores_of_run(directory / "model" / "run.trec", judged)
    convention = evaluation.Convention(max_label=1.0)
    ranges = metric_ranges(judged, scores, [*expected["test"]], convention)
    assert_within(report["test"], ranges)


def make_fitter(directory, lists, epochs, forms=FORMS, **given):
    tf.keras.utils.set_random_seed(0)
    transforms = models.feature_transforms(forms, lists)
    values = given.get("grade_values")
    scorer = models.MLPScorer([4], num_grades=values and len(values))
    return small_fitter(
        models.model_builder(3, scorer, transforms),
        lists_datasets.ListsDatasets(
            lists, lists, 4, 0, num_grades=values and len(values)
        ),
        directory,
        epochs,
        **given,
    )


@pytest.mark.grid
def test_a_resumed_run_has_the_statistics_of_the_undisturbed_one(tmp_path):
    lists = make_lists([4, 3, 5, 2] * 3)
    whole = make_fitter(tmp_path / "whole", lists, 4).train_and_validate()
    make_fitter(tmp_path / "parts", lists, 2).train_and_validate()
    parts = make_fitter(tmp_path / "parts", lists, 4).train_and_validate()
    assert parts.history == whole.history and len(whole.history["loss"]) == 4
    for resumed, weight in zip(parts.model.get_weights(), whole.model.get_weights()):
        np.testing.assert_array_equal(resumed, weight)
    (layer,) = (x for x in whole.model.layers if isinstance(x, models.Standard))
    expected = models.feature_transforms(FORMS, lists).layers[2].get_config()
    mean, std = layer.get_weights()
    np.testing.assert_array_equal(mean, np.float32(expected["mean"]))
    np.testing.assert_array_equal(std, np.float32(expected["std"]))


@pytest.mark.two_graphs
def test_grades_are_monitored_by_the_labels_of_the_evaluation(tmp_path):
    """With weights of the grades, not by their expectation in the scale 0, 1, 2."""
    lists = with_distributions(make_lists([6, 9] * 6, labels=np.arange(90) % 3))
    lists = data.expected_labels(lists, [-1, 0.5, 1])
    convention = evaluation.Convention(relevance_threshold=0.75, max_label=1.0)
    trained = make_fitter(
        tmp_path,
        lists,
        1,
        loss=LossConfig("pointwise_kl_multinomial_loss"),
        grade_values=[0.0, 0.5, 1.0],
        label_values=[0.0, 0.75, 1.0],
        monitor="ndcg_3",
        convention=convention,
    ).train_and_validate()
    scores = data.score_lists(trained.model, lists, 4)
    ranges = metric_ranges(lists, scores, ["ndcg_3"], convention)
    (monitored,) = trained.history["val_ndcg_3"]
    assert_within({"ndcg_3": monitored}, ranges)
    other = dataclasses.replace(
        lists, labels=lists.label_distributions @ np.float32([0, 1, 2])
    )
    least, most = metric_ranges(other, scores, ["ndcg_3"], convention)["ndcg_3"]
    assert not least.mean() - 1e-3 < monitored < most.mean() + 1e-3


SCRIPT = textwrap.dedent(
    """
    import json, sys
    from absl import flags
    import tfr_ext
    from pipelines import train
    from pipelines.flags import wording
    from pipelines.start import failures
    from tests.helpers import make_lists, with_distributions
    from tfr_ext.core import messages
    from tfr_ext.sources import named_sources
    from tfr_ext.sources.source import Source

    class Judged(Source):
        # A source of lists with label distributions, all in 'train'.
        splits = ("train",)

        def _read(self, split, num_features):
            lists = make_lists([6, 9] * 8, labels=[0] * 120)
            return with_distributions(lists)

    train.define_flags()
    named_sources.SOURCES["judged"] = Judged
    own = ("binarize_labels", "dataset", "feature_transforms", "first_stage_feature",
           "grade_values", "label_weights", "list_size", "loss", "loss_param",
           "max_label")
    defaults = {name: flags.FLAGS[name].default for name in own}
    told = []
    for given in json.loads(sys.argv[1]):
        for name, value in defaults.items():
            flags.FLAGS[name].value = value
        flags.FLAGS.unparse_flags()
        try:
            flags.FLAGS(["train", f"--model_dir={sys.argv[2]}/{len(told)}",
                         "--metrics=ndcg_10,map", "--synthetic_num_queries=9",
                         "--synthetic_list_size=7", "--num_epochs=1", "--seed=0",
                         *given])
            with messages.worded(wording.with_flag_names):
                train.train()
            told.append("")
        except flags.Error as error:
            told.append(str(error))
        except ValueError as error:
            told.append(failures.explain(error))
    print(json.dumps(told))
    """
)
WRONG = [
    (["--feature_transforms=log1p,standart"], ["--feature_transforms=log1p,standart",
     "'standart'; did you mean 'standard'"]),
    (["--feature_transforms=clip:2:1"], ["--feature_transforms=clip:2:1", "above"]),
    (["--label_weights=0,1"], ["--label_weights=0,1: ", "no label distributions"]),
    (["--label_weights=1,x"], ["--label_weights must be finite numbers", "'x'"]),
    (["--label_weights=1,0"], ["each above the one before", "1,0"]),
    (["--binarize_labels=0"], ["--binarize_labels must be positive", "0"]),
    (["--max_label=3"], ["--max_label=3, but there is a label 4"]),
    (["--loss=pointwise_kl_binomial_loss", "--loss_param=max_label=2"],
     ["--loss_param=max_label=2, but there is a label 4"]),
    (["--loss=smoothi_loss", "--loss_param=metric=err", "--loss_param=max_label=2"],
     ["--loss_param=max_label=2, but there is a label 4"]),
    (["--dataset=judged", "--label_weights=0,1"],
     ["--label_weights=0,1: ", "one number for each of the 3 grades"]),
    (["--first_stage_feature=3"], ["--list_size", "--eval_list_size"]),
    (["--first_stage_feature=26", "--list_size=3"],
     ["--first_stage_feature=26: ", "from 1 to 25"]),
]  # fmt: skip


JUDGED = ["--dataset=judged", "--label_weights=-1,0.5,1", "--hidden_sizes=4"]
RIGHT = [
    [*JUDGED, "--loss=listwise_kl_gaussian_loss"],
    [*JUDGED, "--loss=pointwise_kl_multinomial_loss", "--grade_values=0,0.75,1"],
    [*JUDGED, "--loss=pointwise_kl_multinomial_loss", "--binarize_labels=0.6"],
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs")
    given = [*(flags for flags, _ in WRONG), *RIGHT]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(given), directory],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory, json.loads(done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.grid
def test_wrong_flags_are_told_before_training(runs):
    directory, told, _ = runs
    for number, (given, parts) in enumerate(WRONG):
        for part in parts:
            assert part in told[number], (given, told[number])
        assert not (directory / str(number)).exists()


@pytest.mark.grid
def test_judgement_distributions_become_labels(runs):
    directory, told, printed = runs
    assert told[len(WRONG) :] == ["", "", ""]
    assert "weights -1, 0.5, 1 rescaled to 0 to 1." in printed
    assert "Using --loss_param=max_label=1, as none is given." in printed
    assert "No training label reaches --relevance_threshold=1" in printed
    reports = [
        json.loads((directory / str(number) / "metrics.json").read_text())
        for number in range(len(WRONG), len(told))
    ]
    assert [r["convention"]["max_label"] for r in reports] == [1, 1, 1]
    assert reports[2]["labels"].endswith("; then 1 from 0.6 up, else 0")
    # Of expected labels none is relevant to MAP, of binary ones some are.
    assert [r["test"]["map"] > 0 for r in reports] == [False, False, True]
    for number, report in enumerate(reports, len(WRONG)):
        state = directory / str(number) / "checkpoints" / "state.json"
        monitored = json.loads(state.read_text())["history"]["val_ndcg_10"]
        np.testing.assert_allclose(monitored, report["valid"]["ndcg_10"], rtol=1e-5)
