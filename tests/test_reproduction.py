"""The pages of docs/reproduction, from made-up experiments."""

import json
import pathlib
import sys

import numpy as np
import pytest
import scipy.stats

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import reproduction  # noqa: E402
from papers import (  # noqa: E402
    choices,
    conventions,
    figures,
    pages,
    protocol,
    published,
    results,
    tables,
)

from tfr_ext import evaluation  # noqa: E402

METRICS = ["ndcg_10", "map"]
# NDCG@10 and MAP of each method. In the paper's order by NDCG@10 on MQ2008, SmoothI
# leads, then Approx, then ListNet.
MEANS = {"SmoothI": (0.508, 0.473), "approx": (0.511, 0.477), "List-Net": (0.5, 0.4)}


def write_experiment(path, means=MEANS, against="best", metric_names=METRICS, folds=2):
    """Writes what `pipelines.experiment` leaves, of two folds and a grid of alpha."""
    path.mkdir(parents=True)
    best = np.max(list(means.values()), axis=0)
    runs = [
        {
            "name": name,
            "folds": folds,
            "seeds": [1, 2],
            "queries": 4,
            "metrics": {
                metric: {
                    "mean": value,
                    "se_folds": 0.0194,
                    "sd_seeds": 0.001,
                    "best": bool(value == top),
                    "p_value": None if value == top else 0.01,
                    "significant": "" if value == top else "worse",
                }
                for metric, value, top in zip(metric_names, values, best)
            },
        }
        for name, values in means.items()
    ]
    comparison = {
        "metrics": list(metric_names),
        "convention": {
            "gain": "linear",
            "empty_list": "zero",
            "relevance_threshold": 1.0,
            "max_label": 2.0,
            "ties": "by position",
        },
        "test": {
            "test": "t",
            "alternative": "two-sided",
            "correction": "bonferroni",
            "level": 0.05,
            "against": against,
        },
        "runs": runs,
    }
    experiment = {
        "name": path.name,
        "cells": 18,
        "candidates": 6,
        "failed": 1,
        "cached": 0,
        "seconds": 600.0,
        "cell_seconds": 1100.0,
        "jobs": 2,
        "folds": [1, 2],
        "seeds": [1, 2],
        "selection_seeds": 1,
        "select_by": "ndcg_10",
        "versions": {"tensorflow": "2.15.1"},
    }
    (path / "comparison.json").write_text(json.dumps(comparison))
    (path / "experiment.json").write_text(json.dumps(experiment))
    selected = ["method\tfold\tcandidate\tvalid"]
    columns = [f"{split}_{m}" for split in ("valid", "test") for m in metric_names]
    columns = ["valid_map", *(c for c in columns if c != "valid_map")]
    others = "\t0.5" * (len(columns) - 1)
    cells = [
        "method\tcandidate\tfold\tseed\tphase\tstatus\tseconds\tdirectory\t"
        + "\t".join(columns)
    ]
    for name in means:
        for fold, alpha in enumerate((1, 10)[:folds], 1):
            flags = "--loss=a_loss --loss_param=alpha={} --learning_rate=0.01"
            selected.append(f"{name}\t{fold}\t{flags.format(alpha)}\t0.5")
            for value in (1, 10):
                # What was not chosen has other figures.
                valid = fold / 10 if value == alpha else 0.9
                cells.append(
                    f"{name}\t{flags.format(value)}\t{fold}\t1\tselect\tfinished\t9\t"
                    f"cells/{name}_{fold}_{value}\t{valid}{others}"
                )
    (path / "selected.tsv").write_text("\n".join(selected) + "\n")
    (path / "cells.tsv").write_text("\n".join(cells) + "\n")


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a page from a template."""

    def write(text):
        template = tmp_path / "page.md.in"
        template.write_text(text)
        writer = pages.Writer(
            tmp_path / "experiments", tmp_path / "docs/figures", tmp_path / "docs/pages"
        )
        return writer.page(template)

    return write


@pytest.fixture
def run(tmp_path):
    write_experiment(tmp_path / "experiments" / "trial")
    return results.load(tmp_path / "experiments", "trial")


def rows_of(text):
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_both_figures_and_their_difference(write, run):
    text = write("{{ table trial smoothi mq2008 }}")
    rows = rows_of(text)
    assert rows[0] == ["", "", "NDCG@10", "MAP"]
    assert rows[2:5] == [
        ["SmoothI", "ours", "0.508 ±0.019†", "0.473 ±0.019†"],
        ["", "published", "**0.514** ±0.019", "**0.481** ±0.018"],
        ["", "difference", "-0.006", "-0.008"],
    ]
    assert rows[5] == ["approx", "ours", "**0.511** ±0.019", "**0.477** ±0.019"]
    # What we have not run is there all the same: seven others.
    assert ["ListMLE", "published", "0.486 ±0.024", "0.448 ±0.021"] in rows
    assert len(rows) == 2 + 3 * 3 + 7
    assert "paired t-test, two-sided, Bonferroni, 5%" in text
    assert "arXiv version, Table 2" in text


def test_a_table_of_ours_alone_has_all_metrics(write, run):
    rows = rows_of(write("{{ table trial }}"))
    assert rows[0] == ["", "NDCG@10", "MAP"]
    assert rows[-1] == ["List-Net", "0.500 ±0.019†", "0.400 ±0.019†"]


def test_the_spread_of_a_single_fold_is_over_its_seeds(write, run, tmp_path):
    assert "± is the standard error over folds" in write("{{ table trial }}")
    run.experiment["folds"] = [1]
    for one in run.comparison["runs"]:
        for figure in one["metrics"].values():
            figure["se_folds"], figure["sd_seeds"] = None, 0.02 * 2**0.5
    text = tables.beside(run, None)
    assert rows_of(text)[-1] == ["List-Net", "0.500 ±0.020†", "0.400 ±0.020†"]
    assert "± is the standard error over seeds" in text


def test_against_a_baseline_marks_are_arrows(write, tmp_path):
    write_experiment(tmp_path / "experiments" / "trial", against="approx")
    text = write("{{ table trial kl mq2008 }}")
    assert "0.4730 ±0.0194↓" in text and "†" not in text


def test_published_marks_and_best_figures_are_shown(write):
    rows = rows_of(write("{{ published_table wassrank mq2008 }}"))
    assert rows[2][:3] == ["LambdaRank", "0.4136*", "0.2515*"]
    assert rows[-1][:2] == ["WassRank", "**0.4384**"]
    of_pirank = rows_of(write("{{ published_table pirank web30k }}"))
    arp = of_pirank[0].index("ARP")
    assert [row[0] for row in of_pirank if "**" in row[arp]] == ["NeuralSort"]
    # Tests of lists of different lengths have no best among them.
    assert "**" not in write("{{ published_table pirank list_size }}")


def test_the_order_is_that_of_scipy(write, run):
    text = write("{{ order trial smoothi mq2008 ndcg_10 }}")
    theirs = [0.514, 0.513, 0.468]
    expected = scipy.stats.kendalltau([m[0] for m in MEANS.values()], theirs)[0]
    assert rows_of(text)[2][0] == f"{expected:.2f}" == "0.33"
    assert "- ours: approx, SmoothI, List-Net\n" in text
    assert "- published: SmoothI, approx, List-Net\n" in text


def test_a_cost_is_best_when_low(write, tmp_path):
    means = {"RankNet": (40.0, 0.5), "PiRank": (30.0, 0.4)}
    path = tmp_path / "experiments" / "trial"
    write_experiment(path, means, metric_names=["arp", "opa"])
    text = "{{{{ order trial pirank web30k {} }}}}"
    assert "- ours: PiRank, RankNet\n" in write(text.format("arp"))
    assert "- ours: RankNet, PiRank\n" in write(text.format("opa"))


def test_choices_name_the_flags_that_differ(write, run):
    rows = rows_of(write("{{ chosen trial }}"))
    assert rows[2] == ["SmoothI", "2", "`alpha=1` (1); `alpha=10` (1)"]


def test_other_ways_of_choosing_are_worked_out(write, run):
    # Of candidate A and B in folds 1 and 2: validation and test NDCG@10 and ARP, which
    # is best when low. C lacks a fold, another seed is another cell.
    figures_of = {
        ("A", "1"): (0.6, 0.50, 20, 9),
        ("A", "2"): (0.1, 0.30, 10, 8),
        ("B", "1"): (0.5, 0.20, 10, 7),
        ("B", "2"): (0.5, 0.40, 30, 2),
        ("C", "1"): (0.9, 0.90, 1, 1),
    }
    columns = ("valid_ndcg_10", "test_ndcg_10", "valid_arp", "test_arp")
    cells = [
        {"method": "SmoothI", "candidate": name, "fold": fold, "seed": seed}
        | {"status": "finished"}
        | {c: str(v + (seed == "2")) for c, v in zip(columns, values)}
        for (name, fold), values in figures_of.items()
        for seed in ("1", "2")
    ]
    run.cells[:] = cells
    run.comparison["metrics"] = ["ndcg_10", "arp"]
    rows = rows_of(choices.ways(run, "smoothi", None))
    assert rows[0] == ["chosen by", "NDCG@10", "ARP"]
    assert [row[1:] for row in rows[2:]] == [
        ["0.450", "5.500"],  # A in fold 1, B in fold 2
        ["0.450", "7.500"],  # by its own values ARP has B and A
        ["0.300", "4.500"],  # B has .5, A .35
        ["0.300", "8.500"],  # A has 15, B 20
        ["0.350", "6.500"],
        ["0.400", "4.500"],  # A has .4, B .3; 8.5 and 4.5
    ]
    for cell in cells:
        cell["status"] = "failed"
    with pytest.raises(ValueError, match="No candidate of 'SmoothI'"):
        choices.ways(run, "SmoothI", None)


def test_values_of_the_text(write, run):
    assert write("{{ value trial smoothi ndcg_10 }}") == "0.508\n"
    assert write("{{ value trial smoothi ndcg_10 4 }}") == "0.5080\n"
    assert write("{{ published kl mq2008 MSE ndcg_1 }}") == "0.3795\n"
    assert (
        write("a {{ difference trial SmoothI map smoothi mq2008 }} b") == "a -0.008 b\n"
    )


def test_the_protocol_is_told(write, run):
    text = write("{{ run trial }}\n{{ convention trial }}")
    assert "--flagfile=configs/experiments/trial.cfg" in text
    assert "Folds 1, 2; seeds 1, 2. 6 candidates; " in text
    assert "18 min of training in all, 2 at a time, 10 min by the clock." in text
    assert "tensorflow 2.15.1" in text
    run.experiment["cached"] = 7
    assert "18 cells, 1 failed; 18 min of training in all, 2 at a time. tensor" in (
        protocol.told(run)
    )
    assert "count as: zero; NDCG gain: linear" in text
    assert "for each method and fold the one of the best validation NDCG@10" in text
    run.experiment["select_for"] = "all"
    assert "the best mean over the folds of validation NDCG@10" in protocol.told(run)


def test_what_was_not_run_is_said(write):
    text = write(
        "{{ run none }}\n\n{{ convention none }}\n\n{{ table none smoothi mq2008 }}\n\n"
        "{{ order none smoothi mq2008 map }}\n\n{{ chosen none }}\n\n"
        "{{ figure line none map Caption }}\n\n{{ rules none a map }}\n\n"
        "{{ ways none a }}\n\n"
        "{{ value none a map }} {{ difference none a map smoothi mq2008 }}".replace(
            "difference none a", "difference none ListNet"
        )
    )
    assert "Not run.\n" in text and "configs/experiments/none.cfg" in text
    assert ["ListNet", "0.392 ±0.021†"] == rows_of(text)[2][:2]
    assert text.endswith("not run not run\n")
    assert "\n\n\n" not in text and "Kendall" not in text
    assert "Not run: MQ2007 could not be had" in write("{{ ready none MQ2007 }}")


@pytest.mark.parametrize(
    "placeholder, message",
    [
        ("{{ tabel trial }}", "Unknown placeholder 'tabel'"),
        ("{{ }}", "Unknown placeholder ''"),
        ("{{ table }}", "missing a required argument: 'name'"),
        ("{{ table trial smoothi }}", "a paper and a table"),
        ("{{ table trial smoothi mq2009 }}", "Unknown published table 'mq2009'"),
        ("{{ table trial smoothie mq2008 }}", "Unknown paper 'smoothie'"),
        ("{{ value trial Smooth map }}", "Unknown method of trial 'Smooth'"),
        ("{{ value trial SmoothI mrr }}", "Unknown metric of trial 'mrr'"),
        ("{{ published smoothi mq2008 SmoothI mrr }}", "Unknown metric 'mrr'"),
        ("{{ figure pie trial map Caption }}", "Unknown figure 'pie'"),
        ("{{ figure grid trial map Caption }}", "named 'SmoothI'"),
        ("{{ figure line trial valid_mrr Caption }}", "No column 'valid_mrr'"),
        ("{{ order trial smoothi mq2008 ndcg_1 }}", "metric that trial shares"),
        ("{{ order trial wassrank mq2008 ndcg_10 }}", "fewer than two methods"),
        ("{{ ways trial Smooth }}", "Unknown method of trial 'Smooth'"),
        ("{{ rules trial SmoothI map }}", "has not the files of a run"),
        ("{{ run trial size }}", "such as 'list_size=10,20'"),
        ("{{ run trial", "does not end on its line"),
        ("{{ run 'trial }}", "No closing quotation"),
    ],
)
def test_a_wrong_placeholder_is_told_with_its_line(write, run, placeholder, message):
    with pytest.raises(ValueError, match=r"page\.md\.in:3: ") as error:
        write(f"# Title\n\n{placeholder}\n")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "file, text, message",
    [
        ("experiment.json", None, "experiment.json cannot be read"),
        ("comparison.json", "{", "comparison.json cannot be read"),
        ("comparison.json", "{}", "has no 'metrics'"),
        ("cells.tsv", "method\tfold\na\t1\nb\n", "line 3 has not the 2 cells"),
        ("selected.tsv", "method\tfold\na\t1\t2\n", "line 2 has not the 2 cells"),
    ],
)
def test_a_damaged_result_is_named(run, tmp_path, file, text, message):
    path = tmp_path / "experiments" / "trial" / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ValueError, match=message):
        results.load(tmp_path / "experiments", "trial")


def test_validation_figures_are_means_over_folds(run):
    found = run.figures("SmoothI", "valid_map")
    assert found["mean"] == pytest.approx(0.15)
    assert found["se_folds"] == pytest.approx(np.std([0.1, 0.2], ddof=1) / np.sqrt(2))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("alpha=e", {"alpha": "e"}),
        ("alpha=0.1 delta=0.25", {"alpha": "0.1", "delta": "0.25"}),
        ("no hidden layer", {"hidden layers": "0"}),
        ("1 hidden layer", {"hidden layers": "1"}),
        ("10 hidden layers", {"hidden layers": "10"}),
        ("SmoothI-NDCG@1", {}),
    ],
)
def test_parameters_are_read_off_names(name, expected):
    assert figures.parameters(name) == expected


def test_figures_are_drawn_and_linked(write, tmp_path):
    means = {
        f"alpha={a}, delta={d}": (a / 10, d) for a in (1, 2, 3) for d in (0.1, 0.2)
    }
    write_experiment(tmp_path / "experiments" / "trial", means)
    for kind in ("line", "grid", "matrix"):
        text = write(f"{{{{ figure {kind} trial ndcg_10,map 'A caption' }}}}")
        assert text == f"![A caption](../figures/trial_{kind}.png)\n"
        assert (tmp_path / f"docs/figures/trial_{kind}.png").stat().st_size
    grid = figures.grid(results.load(tmp_path / "experiments", "trial"), ["ndcg_10"])
    shown = [text.get_text() for text in grid.axes[0].texts]
    assert shown == ["0.100", "0.100", "0.200", "0.200", "0.300", "0.300"]
    assert [t.get_text() for t in grid.axes[0].get_yticklabels()] == ["1", "2", "3"]


def test_a_line_goes_through_the_values_alone(tmp_path):
    means = {"t=1": (0.1,), "t=5": (0.3,), "annealed": (0.2,)}
    write_experiment(tmp_path / "trial", means, metric_names=["map"])
    figure = figures.line(results.load(tmp_path, "trial"), ["map"])
    axes = figure.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1", "5", "annealed"]
    assert axes.get_xlabel() == "t"
    assert axes.lines[-1].get_ydata().tolist() == [0.1, 0.3]


def test_curves_are_means_over_folds(run):
    for fold, alpha, values in ((1, 1, "0.1 0.3 0.5"), (2, 10, "0.2 0.5")):
        for name in MEANS:
            path = run.directory / "cells" / f"{name}_{fold}_{alpha}"
            path.mkdir(parents=True)
            (path / "per_query.tsv").write_text("query\tmap\nq1\t0.5\n")
            lines = [f"{epoch}\t{v}" for epoch, v in enumerate(values.split(), 1)]
            (path / "history.tsv").write_text("\n".join(["epoch\tval_map", *lines]))
    axes = figures.curves(run, ["val_map"]).axes[0]
    assert [line.get_label() for line in axes.lines] == list(MEANS)
    for line in axes.lines:
        assert line.get_xdata().tolist() == [1, 2, 3]
        np.testing.assert_allclose(line.get_ydata(), [0.15, 0.4, 0.5])
    assert axes.get_ylabel() == "validation MAP"
    with pytest.raises(ValueError, match="'SmoothI' has a column 'val_mrr'"):
        figures.curves(run, ["val_mrr"])


def test_a_series_is_an_experiment_for_each_value(write, tmp_path):
    text = "{{ run trial size=5,9 }}\n\n{{ series trial size=5,9 map Caption }}"
    for value, mean in ((5, 0.25), (9, 0.75)):
        path = tmp_path / f"experiments/trial_{value}"
        write_experiment(path, {"a": (mean,), "b": (0.5,)}, metric_names=["map"])
        shown = write(text)
        assert ("series.png" in shown) == (value == 9)
        assert ("`--size=9`: Not run." in shown) == (value == 5)
    assert "`--size=5`: Folds 1, 2;" in shown
    assert "trial.cfg --size=9 \\\n    --output_dir=models/experiments/trial_9" in shown
    found = {v: results.load(tmp_path / "experiments", f"trial_{v}") for v in (5, 9)}
    axes = figures.series(found, "size", ["map"]).axes[0]
    assert [t.get_text() for t in axes.texts] == ["0.250", "0.750", "0.500", "0.500"]


def test_rules_are_those_of_a_plain_loop(write, run, tmp_path):
    rng = np.random.default_rng(0)
    folds = []
    for name, fold, value in (("SmoothI", 1, 1), ("SmoothI", 2, 10)):
        path = tmp_path / "experiments/trial/cells" / f"{name}_{fold}_{value}"
        path.mkdir(parents=True)
        labels = [rng.integers(0, 3, length) for length in (4, 12, 15)]
        labels.append(np.zeros(11, int))
        folds.append(labels)
        with (
            open(path / "run.trec", "w") as ranked,
            open(path / "qrels.trec", "w") as judged,
        ):
            for q, of_query in enumerate(labels):
                for rank, label in enumerate(of_query, 1):
                    ranked.write(f"q{q} Q0 d{rank} {rank} {-rank} tag\n")
                    judged.write(f"q{q} 0 d{rank} {label}\n")

    def err(labels):
        total, go_on = 0.0, 1.0
        for rank, label in enumerate(labels[:3], 1):
            stop = (2**label - 1) / 4
            total += go_on * stop / rank
            go_on *= 1 - stop
        return total

    rows = rows_of(write("{{ rules trial SmoothI err_3,ndcg_1 wassrank mq2007 }}"))
    fewest = {"all": 1, "relevant": 1, "and": 10}
    rules = [[err(q) for q in labels] for labels in folds]
    expected = [
        np.mean([np.mean(of_fold) for of_fold in rules]),
        np.mean([np.mean(of_fold[:3]) for of_fold in rules]),
        np.mean([np.mean(of_fold[1:3]) for of_fold in rules]),
    ]
    assert len(fewest) == len(expected) == len(conventions.QUERIES)
    assert [row[2] for row in rows[2:8:2]] == [f"{e:.4f}" for e in expected]
    firsts = [q[0] / q.max() for labels in folds for q in labels[1:3]]
    assert rows[6][3] == f"{np.mean(firsts):.4f}"
    assert rows[6][1] == "linear" and rows[7][1] == "exponential"


def test_published_tables_are_whole():
    shapes = {
        "smoothi": {"mq2007": 10, "mq2008": 10, "web30k": 10, "yahoo": 10},
        "wassrank": {"mq2007": 5, "mq2008": 5},
        "pirank": {"web30k": 6, "yahoo": 6, "list_size": 16},
        "kl": {
            **dict.fromkeys(("mq2007", "mq2008", "web30k", "ohsumed"), 9),
            **dict.fromkeys(("mq2007_sampled", "mq2008_sampled", "web30k_sampled"), 9),
            "ohsumed_sampled": 8,
            "covid_mlia": 10,
            **{f"{c}_gbm": 5 for c in ("mq2007", "mq2008", "web30k", "ohsumed")},
        },
    }
    assert {p: {t: len(published.table(p, t).values) for t in published.tables(p)}
            for p in published.papers()} == shapes  # fmt: skip


@pytest.mark.parametrize(
    "paper, name", [(p, t) for p in published.papers() for t in published.tables(p)]
)
def test_a_published_table_is_sound(paper, name):
    table = published.table(paper, name)
    for metric in table.metrics:
        evaluation.higher_is_better(metric)  # there is such a metric
    assert table.source and table.collection and table.convention
    assert set(table.errors) in (set(), set(table.values))
    for method, row in table.values.items():
        assert len(row) == len(table.metrics) == 7 or len(row) == 8
        for metric, value in zip(table.metrics, row):
            assert 0 <= value <= (50 if metric == "arp" else 1), (method, metric)
        for marks in table.marks.get(method, []):
            assert marks in ("", *table.meaning)
        at_1 = dict(zip(table.metrics, row))
        if {"ndcg_1", "precision_1"} <= set(at_1):
            # A relevant document at rank 1 has the precision 1, and at most that NDCG.
            assert at_1["ndcg_1"] <= at_1["precision_1"] + 1e-9
        for errors in table.errors.get(method, []):
            assert 0 <= errors < 0.2


@pytest.mark.parametrize("page", pages.names())
def test_the_pages_are_what_their_text_gives(page, tmp_path):
    text = pages.Writer(tmp_path, tmp_path / "figures", tmp_path).page(
        pages.template(page)
    )
    assert "{{" not in text and "}}" not in text
    written = (reproduction.DOCS / "reproduction" / f"{page}.md").read_text()
    assert "{{" not in written and "}}" not in written

    def headings(of_page):
        return [line for line in of_page.splitlines() if line.startswith("#")]

    assert headings(written) == headings(text)
    navigation = (reproduction.DOCS.parent / "mkdocs.yml").read_text()
    assert f"reproduction/{page}.md" in navigation


def test_the_command_lists_and_writes(monkeypatch, capsys, tmp_path):
    path = tmp_path / "experiments" / "smoothi_mq2008"
    means = {**MEANS, "ListAP": (0.49, 0.46), "FastSort": (0.48, 0.45)}
    write_experiment(path, means=means, metric_names=["ndcg_10", "ndcg"])

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["reproduction.py", *map(str, arguments)])
        reproduction.main()
        return capsys.readouterr().out.splitlines()

    listed = run("--list", "--page", "smoothi")
    flagfile = "--flagfile=configs/experiments/smoothi_mq2008.cfg"
    assert listed[0] == f"smoothi_mq2008 {flagfile}"
    assert not any("web30k" in line for line in listed)
    assert any("--eval_list_size=40" in line for line in run("--list"))
    docs = tmp_path / "docs"
    where = ("--experiments", tmp_path / "experiments", "--docs", docs)
    assert run(*where, "--page", "smoothi") == [str(docs / "reproduction/smoothi.md")]
    assert "**0.511** ±0.019" in (docs / "reproduction/smoothi.md").read_text()
    with pytest.raises(SystemExit, match="Unknown page 'smooth'"):
        run("--page", "smooth")


@pytest.mark.parametrize(
    "metric, name",
    [("ndcg_10", "NDCG@10"), ("precision_5", "P@5"), ("nerr", "nERR"),
     ("valid_map", "validation MAP"), ("opa", "OPA")],
)  # fmt: skip
def test_metrics_are_named_as_in_papers(metric, name):
    assert tables.heading(metric) == name
