"""Foreign runs as cells of an experiment: lists, documents, errors."""

import csv
import json

import numpy as np
import pytest

from pipelines.experiments import kinds
from pipelines.experiments.kinds import RunConfig
from tfr_ext.training import DataConfig, MetricsConfig

# Query: grades of its documents a, b, c.
LISTS = {
    "train": {"t": (1, 0, 0)},
    "vali": {"v": (0, 1, 0)},
    "test": {"q": (0, 2, 1), "r": (1, 0, 0)},
}


def config(folder, run, valid=None, **of_data):
    """The settings of a cell; a run has for each query its documents, best first."""
    for split, lists in LISTS.items():
        lines = [
            f"{grade} qid:{query} 1:NULL #docid = {name}"
            for query, grades in lists.items()
            for name, grade in zip("abc", grades)
        ]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    paths = {}
    for name, rankings in (("run_path", run), ("valid_run_path", valid)):
        if rankings is not None:
            paths[name] = str(folder / f"{name}.trec")
            (folder / f"{name}.trec").write_text(
                "".join(
                    f"{query} Q0 {document} 1 {-rank} foreign\n"
                    for query, ranking in rankings.items()
                    for rank, document in enumerate(ranking)
                )
            )
    return RunConfig(
        data=DataConfig(
            dataset="text",
            **{
                f"{split}_path": (str(folder / f"{file}.txt"),)
                for split, file in (
                    *(("train", "train"), ("valid", "vali"), ("test", "test")),
                )
            },
            **of_data,
        ),
        evaluation=MetricsConfig(metrics=("mrr", "ndcg")),
        model_dir=str(folder / "cell"),
        **paths,
    )


def evaluated(settings):
    """What a cell says: its metrics by split, and its values by query."""
    kinds.check_run(settings)
    kinds.evaluate_run(settings)
    folder = settings.model_dir
    with open(f"{folder}/metrics.json") as file:
        report = json.load(file)
    with open(f"{folder}/per_query.tsv", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        values = {row["query"]: float(row["mrr"]) for row in rows}
    return report, values


def test_unknown_documents_are_irrelevant_and_queries_that_lack_have_nothing(tmp_path):
    report, values = evaluated(config(tmp_path, {"q": "xcb", "w": "a"}))
    assert values == {"q": 0.5, "r": 0.0}
    assert report["test"]["mrr"] == 0.25 and report["valid"] == {}
    gains = (2**2 - 1) / np.log2(4) + 1 / np.log2(3)
    ideal = (2**2 - 1) + 1 / np.log2(3)
    assert report["test"]["ndcg"] == pytest.approx(gains / ideal / 2, abs=1e-6)
    assert report["convention"]["ties"] == "by position"
    assert report["queries"] == {"test": 2, "valid": 1} and report["seed"] is None


def test_validation_queries_are_in_the_run_or_in_one_of_their_own(tmp_path):
    both = {"q": "bca", "r": "a", "v": "cba"}
    assert evaluated(config(tmp_path, both))[0]["valid"]["mrr"] == 0.5
    apart = config(tmp_path, both, valid={"v": "b"})
    assert evaluated(apart)[0]["valid"]["mrr"] == 1
    assert (tmp_path / "cell" / "run.valid.trec").read_text().startswith("v Q0 b 1 ")
    # What was there before is not left beside what is new.
    evaluated(config(tmp_path, {"q": "b"}))
    assert not (tmp_path / "cell" / "run.valid.trec").exists()


def test_what_cut_lists_lack_is_left_out(tmp_path):
    settings = config(tmp_path, {"q": "xcb", "r": "a"}, eval_list_size=2)
    assert evaluated(settings)[1] == {"q": 1.0, "r": 1.0}  # c is cut with x.


def test_the_content_of_the_runs_tells_cells_apart(tmp_path):
    run = {"q": "abc"}
    digests = []
    for given in ((run,), (run, run), ({"q": "acb"},), (run,)):
        digests.append(kinds.digest_of_run(config(tmp_path, *given)))
    assert len({*digests}) == 3 and digests[0] == digests[-1]


def test_errors_name_the_setting_or_the_file(tmp_path):
    with pytest.raises(ValueError, match="`run_path` must be the TREC run"):
        kinds.check_run(RunConfig())
    settings = config(tmp_path, {"w": "a"})
    with pytest.raises(ValueError, match="run_path.trec: no query of the run"):
        kinds.evaluate_run(settings)
    assert not (tmp_path / "cell").exists()
    (tmp_path / "run_path.trec").write_text("q Q0 a 1\n")
    with pytest.raises(ValueError, match="run_path.trec:1: "):
        kinds.digest_of_run(settings)
    (tmp_path / "run_path.trec").unlink()
    with pytest.raises(FileNotFoundError, match="run_path.trec"):
        kinds.digest_of_run(settings)
