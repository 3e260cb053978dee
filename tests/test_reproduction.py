"""The tables and figures that the pages of docs/reproduction include."""

import json
import pathlib
import re
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import reproduction  # noqa: E402
from papers import experiments, figures, results, studies  # noqa: E402

pytestmark = pytest.mark.any_keras

MEANS = {"SmoothI": (0.508, 0.473), "Approx": (0.511, 0.477), "ListNet": (0.5, 0.4)}
TEST = {"test": "t", "alternative": "two-sided", "correction": "bonferroni"}
# The labels are no part of a Convention.
CONVENTION = {"gain": "linear", "empty_list": "zero", "labels": "as given"}
FACTS = json.loads("""{"cells": 18, "candidates": 6, "failed": 1, "cached": 0,
"jobs": 2, "seconds": 600, "cell_seconds": 1100, "folds": [1, 2], "seeds": [1, 2],
"selection_seeds": 1, "select_by": "ndcg_10", "select_for": "fold",
"versions": {"tensorflow": "2.15.1"}}""")


def write_experiment(path, means=MEANS, metrics=("ndcg", "map"), against="best"):
    """Writes what `pipelines.experiment` leaves: all but the best are worse."""
    path.mkdir(parents=True)
    best = np.max(list(means.values()), axis=0)
    runs, selected = [], ["method\tfold\tcandidate"]
    cells = ["method\tcandidate\tfold\tseed\tstatus\tdirectory\tvalid_ndcg"]
    for name, values in means.items():
        found = {
            metric: {"mean": value, "se_folds": 0.0194, "best": bool(value == top)}
            | {"significant": "" if value == top else "worse"}
            for metric, value, top in zip(metrics, values, best)
        }
        runs.append({"name": name, "metrics": found})
        for fold in (1, 2):  # Each fold chose the candidate of its number.
            selected.append(f"{name}\t{fold}\t--loss_param=alpha={fold} --epochs=9")
            for alpha in (1, 2):
                flags = f"--loss_param=alpha={alpha} --epochs=9"
                value = fold / 10 if alpha == fold else 0.9
                cells.append(f"{name}\t{flags}\t{fold}\t1\tfinished\tcell\t{value}")
    comparison = {"metrics": metrics, "convention": CONVENTION, "runs": runs}
    comparison["test"] = TEST | {"level": 0.05, "against": against}
    (path / "comparison.json").write_text(json.dumps(comparison))
    (path / "experiment.json").write_text(json.dumps(FACTS))
    (path / "selected.tsv").write_text("\n".join(selected) + "\n")
    (path / "cells.tsv").write_text("\n".join(cells) + "\n")
    return results.load(path)


@pytest.fixture
def write(tmp_path, monkeypatch, capsys):
    """Returns a function that runs the command: its output, or a fragment."""

    def write(name, *arguments):
        where = ["--experiments", str(tmp_path), "--docs", str(tmp_path / "docs")]
        monkeypatch.setattr(sys, "argv", ["reproduction.py", *where, *arguments])
        reproduction.main()
        path = tmp_path / f"docs/reproduction/tables/{name}.md"
        return path.read_text() if name else capsys.readouterr().out

    return write


def test_a_finished_experiment_stands_beside_the_paper(write, tmp_path):
    write_experiment(tmp_path / "smoothi_mq2008_pytorch")
    text = write("smoothi_mq2008_pytorch", "--page", "smoothi")
    name = "configs/experiments/smoothi_mq2008_pytorch.cfg"
    assert text.startswith(f"""Experiment file: `{name}`.

```sh
python -m pipelines.experiment --flagfile={name} \\
    --output_dir=models/experiments/smoothi_mq2008_pytorch
```

Folds 1, 2; seeds 1, 2. 6 candidates; for each method and fold the one of the best \
validation NDCG@10 was chosen (seeds compared: 1). 18 cells, 1 failed; 18 min of \
training in all, 2 at a time, 10 min by the clock. tensorflow 2.15.1.

|  |  | NDCG | MAP |
| --- | --- | --- | --- |
| SmoothI | ours | 0.508 ±0.019† | 0.473 ±0.019† |
|  | published | **0.550** ±0.019 | **0.481** ±0.018 |
|  | difference | -0.042 | -0.008 |
| Approx | ours | **0.511** ±0.019 | **0.477** ±0.019 |
""")
    assert "\n| ListMLE | published | 0.526 ±0.021† | 0.448 ±0.021 |\n" in text
    assert "(paired t-test, two-sided, Bonferroni, 5%). Published: arXiv ver" in text
    assert "| NDCG | MAP |\n| --- | --- |\n| 0.33 | 0.33 |\n" in text
    assert "ours: Approx, SmoothI, ListNet\n- published: SmoothI, Approx, Li" in text
    assert "\n| SmoothI | 2 | `alpha=1` (1); `alpha=2` (1) |\n" in text
    summary = write("summary", "--page", "kl")
    assert (
        "| [smoothi](smoothi.md) | `smoothi_mq2008_pytorch` | run | 18 | 18 |"
        in summary
    )


def test_marks_against_a_baseline_are_arrows(write, tmp_path):
    means = {"ApproxNDCG": (0.4, 0.4), "MSE": (0.3, 0.3)}
    write_experiment(tmp_path / "kl_mq2008", means, ("ndcg_5", "map"), "ApproxNDCG")
    text = write("kl_mq2008", "--page", "kl")
    assert "| 0.3000 ±0.0194↓ |\n|  | published | 0.4596↑ | 0.4709↑ |" in text
    assert "↑ and ↓ are significantly better and worse than ApproxNDCG" in text
    assert "Convention: Lists without a relevant item count as: zero; NDCG gai" in text


def test_what_was_not_run_is_said_and_every_fragment_included_once(write, tmp_path):
    text = write("wassrank_mq2007")
    assert (
        "--output_dir=models/experiments/wassrank_mq2007\n```\n\nNot run: MQ2" in text
    )
    assert "\n| LambdaRank | 0.4196* | 0.1932* |" in text
    assert "\n| WassRank | **0.4807** | **0.2272** |" in text
    written = [p.name for p in (tmp_path / "docs/reproduction/tables").iterdir()]
    pages = [p.read_text() for p in (ROOT / "docs/reproduction").glob("*.md")]
    included = re.findall(r'(?m)^--8<-- "tables/(.*)"$', "\n".join(pages))
    assert sorted(included) == sorted(written)
    for experiment in (e for page in experiments.pages().values() for e in page):
        assert (ROOT / f"configs/experiments/{experiment.name}.cfg").exists()


def test_experiments_are_listed_and_damaged_ones_named(write, tmp_path):
    flags = "--flagfile=configs/experiments/pirank_list_size.cfg --eval_list_size=40"
    listed = write("", "--list", "--page", "pirank").splitlines()
    assert f"pirank_list_size_40 {flags}" in listed
    assert not any("web30k" in line for line in listed) and len(listed) == 7
    write_experiment(tmp_path / "pirank_depth")
    (tmp_path / "pirank_depth" / "experiment.json").unlink()
    with pytest.raises(SystemExit, match=r"pirank_depth: .*experiment\.json"):
        write("", "--page", "pirank")


def test_figures_show_the_means_and_are_linked(write, tmp_path):
    means = {f"alpha={a} delta={d}": (a / 10, d) for a in (1, 2) for d in (0.1, 0.2)}
    write_experiment(tmp_path / "smoothi_delta", means)
    text = write("smoothi_delta", "--page", "smoothi")
    path = "figures/reproduction/smoothi_delta_grid.png"
    assert text.endswith(f"validation and test queries](../{path})\n")
    assert (tmp_path / "docs" / path).stat().st_size
    result = results.load(tmp_path / "smoothi_delta")
    shown = figures.grid({"": result}, ["ndcg", "valid_ndcg"]).axes
    assert [t.get_text() for t in shown[0].texts] == [
        "0.100",
        "0.100",
        "0.200",
        "0.200",
    ]
    assert {t.get_text() for t in shown[1].texts} == {"0.150"}  # of what was chosen


def test_other_ways_of_choosing_are_worked_out(tmp_path):
    # Validation and test NDCG@10 and ARP, the less the better. C lacks a fold.
    result = write_experiment(tmp_path / "a", {"PiRank": (0, 0)}, ("ndcg_10", "arp"))
    columns = ("valid_ndcg_10", "test_ndcg_10", "valid_arp", "test_arp")
    result.cells[:] = [
        {"method": "PiRank", "candidate": name[0], "fold": name[1], "seed": seed}
        | {"status": "finished"}
        | {c: str(v + (seed == "2")) for c, v in zip(columns, values)}
        for name, *values in (
            ("A1", 0.6, 0.50, 20, 9),
            ("A2", 0.1, 0.30, 10, 8),
            ("B1", 0.5, 0.20, 10, 7),
            ("B2", 0.5, 0.40, 30, 2),
            ("C1", 0.9, 0.90, 1, 1),
        )
        for seed in ("1", "2")
    ]
    text = studies.ways(result, "PiRank", results.published("pirank/web30k"))
    assert re.findall(r"\| ([.0-9]+) \| ([.0-9]+) \|\n", text)[:6] == [
        ("0.450", "5.500"),  # A in fold 1, B in fold 2
        ("0.450", "7.500"),  # by its own values ARP has B and A
        ("0.300", "4.500"),  # B has .5, A .35
        ("0.300", "8.500"),  # A has 15, B 20
        ("0.350", "6.500"),
        ("0.400", "4.500"),  # A has .4, B .3; 8.5 and 4.5
    ]
