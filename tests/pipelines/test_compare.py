"""The comparing command, and the tables and the page that it leaves."""

import collections
import functools
import html.parser
import json
import re

import numpy as np
import pytest

from pipelines.comparing import comparison_report, html_page, tables
from tests.commands import run_command
from tests.files import write_run
from tfr_ext.evaluation.comparison import Options, compare

command = functools.partial(run_command, "pipelines.compare")

# Marked as it should be in all forms of the table.
HOSTILE = r"50% of $x_1$ & {α}~b^c <b>\foo| * `x`"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of two folds; P@1, NDCG@10 and ARP; two of them with a history."""
    root = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    difficulty = rng.random([2, 20]) / 2
    found = {}
    for name, gain in (("best", 0.3), (HOSTILE, 0.298), ("worst", 0.1)):
        found[name] = []
        for fold in range(2):
            ndcg = difficulty[fold] + gain + rng.normal(0, 0.02, 20)
            history = "epoch\tloss\tval_loss\tval_ndcg_10\n" + "".join(
                f"{e}\t{1 / e}\t{1.5 / e}\t{gain * e}\n" for e in range(1, 4 + fold)
            )
            found[name].append(
                write_run(
                    root / f"{gain}-{fold}",
                    {"precision_1": ndcg > 0.5, "ndcg_10": ndcg, "arp": 9 - ndcg},
                    [f"{fold}-{i}" for i in range(20)],
                    history=history if name != "worst" else "",
                )
            )
    return found


@pytest.fixture(scope="module")
def compared(runs):
    return compare(runs, Options(title="A & B", standard_errors=True))


def test_the_command(runs, tmp_path):
    done = command(
        *(f"{name}={','.join(paths)}" for name, paths in runs.items()),
        "--metrics=ndcg_10,arp",
        "--test=randomisation",
        "--num_resamples=999",
        "--alternative=one-sided",
        "--correction=holm",
        "--level=0.01",
        "--digits=4",
        f"--output_dir={tmp_path}/out",
    )
    report = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert report["metrics"] == ["ndcg_10", "arp"]
    assert report["convention"] == {"gain": "linear"}
    assert report["test"] == {
        "test": "randomisation",
        "alternative": "one-sided",
        "correction": "holm",
        "level": 0.01,
        "against": "best",
        "num_resamples": 999,
        "seed": 1,
    }
    best, other, worst = report["runs"]
    assert [run["name"] for run in report["runs"]] == list(runs)
    assert (best["folds"], best["queries"], best["seeds"]) == (2, 40, [])
    assert best["metrics"]["ndcg_10"]["best"] and best["metrics"]["arp"]["best"]
    assert best["metrics"]["ndcg_10"]["p_value"] is None
    result = worst["metrics"]["ndcg_10"]
    assert result["p_value"] == 2 / 1000 and result["significant"] == "worse"
    assert result["wins"] + result["ties"] + result["losses"] == 40
    assert other["metrics"]["arp"]["significant"] == ""
    for text in (
        f"{best['metrics']['ndcg_10']['mean']:.4f}*",
        f"{result['mean']:.4f}†",
    ):
        assert text in done.stdout
    assert (
        "one-sided (the best is better than the run) randomisation test with 999"
        in (" ".join(done.stdout.split()))
    )
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        ".written_by_compare",
        "comparison.html",
        "comparison.json",
        "table.md",
        "table.tex",
    ]


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["only=."], "Error: Expected at least two runs"),
        (["a=nowhere", "b=."], "Error: a=nowhere: nothing is at 'nowhere'."),
        (["--test=u"], "flag --test=u: value should be one of"),
    ],
)
@pytest.mark.grid
def test_what_the_command_refuses(arguments, text):
    done = command(*arguments, check=False)
    assert done.returncode == 1 and text in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_on_a_terminal(compared):
    plain = tables.terminal(compared, bold=False).split("\n")
    assert plain[0].split() == ["P@1", "NDCG@10", "ARP"]
    # All columns begin where their headers do.
    column = plain[0].index("NDCG@10")
    for line, name in zip(plain[1:4], compared.results):
        result = compared.results[name]["ndcg_10"]
        marks = {"best": "*", HOSTILE: "", "worst": "†"}[name]
        expected = f"{result.mean:.3f} ±{result.se_folds:.3f}{marks}"
        assert line.startswith(name) and line[column:].startswith(expected)
        assert line[column + len(expected)] == " "
    bold = tables.terminal(compared, bold=True)
    mean = compared.results["best"]["ndcg_10"].mean
    assert f"\033[1m{mean:.3f} ±" in bold and "*" not in bold.replace(HOSTILE, "")
    assert re.sub("\033\\[[01]m", "", bold).count("†") == bold.count("†") >= 3


def test_arrows_against_a_baseline(runs):
    compared = compare(runs, Options(against=HOSTILE, correction="none"))
    text = tables.terminal(compared, bold=False)
    assert f"{compared.results['worst']['ndcg_10'].mean:.3f}↓" in text
    compared = compare(runs, Options(against="worst"))
    assert f"{compared.results['best']['ndcg_10'].mean:.3f}*↑" in (
        tables.terminal(compared, bold=False)
    )
    assert "significantly better and worse than worst" in tables.caption(compared)


def test_the_caption_says_how(compared, runs):
    text = tables.caption(compared)
    for part in (
        "A & B. Mean of the means of 2 folds (40 test queries; 1 seed a fold).",
        "± is the standard error over the folds.",
        "ARP: lower is better.",
        "† is significantly worse than the best of that metric: two-sided paired "
        "t-test over queries, level 0.05, Bonferroni correction over 2 comparisons",
        "Convention: gain linear.",
    ):
        assert part in text
    pair = {name: runs[name][:1] for name in ("best", "worst")}
    text = tables.caption(compare(pair, Options(test="wilcoxon", level=0.1)))
    assert "Mean over queries (20 test queries; 1 seed a run)." in text
    assert "correction" not in text
    assert text.count("Wilcoxon signed-rank test over queries, level 0.1") == 1


def test_markdown(compared):
    lines = tables.markdown(compared).split("\n")
    assert lines[0] == "| run | P@1 | NDCG@10 | ARP |"
    for line, name in zip(lines[2:5], compared.results):
        assert len(re.findall(r"(?<!\\)\|", line)) == 5  # None of them from the name.
        result = compared.results[name]["ndcg_10"]
        text = f"{result.mean:.3f} ±{result.se_folds:.3f}"
        expected = {"best": f"**{text}**", HOSTILE: text, "worst": f"{text}†"}[name]
        assert line.split(" | ")[-2] == expected


def test_latex(compared):
    text = tables.latex(compared)
    assert (
        r"50\% of \$x\_1\$ \& \{$\alpha$\}\textasciitilde{}b\textasciicircum{}c "
        r"\textless{}b\textgreater{}\textbackslash{}foo\textbar{} * `x` &"
    ) in text
    assert r"\caption{A \& B. Mean" in text
    assert text.isascii()
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    for line in body.split("\n")[1:-1]:
        assert len(re.findall(r"(?<!\\)&", line)) == 3 and line.endswith(r" \\")
    assert text.count("{") == text.count("}")
    worst = compared.results["worst"]["ndcg_10"]
    assert rf"{worst.mean:.3f} $\pm${worst.se_folds:.3f}$^{{\dagger}}$" in text


class Page(html.parser.HTMLParser):
    """What a page refers to, its identifiers and its words."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.references, self.ids = collections.Counter(), [], []
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.references.append(value)
            if name == "id":
                self.ids.append(value)
            self.references += re.findall(r"url\(([^)]*)\)", value or "")

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_stands_alone(compared, tmp_path):
    comparison_report.write(compared, str(tmp_path))
    text = (tmp_path / "comparison.html").read_text()
    page = Page(text)
    assert page.references and all(r.startswith("#") for r in page.references)
    assert {r[1:] for r in page.references} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert not page.tags.keys() & {"link", "script", "iframe", "img", "base", "b<"}
    assert "@import" not in text and not re.search("https?://", text)
    words = " ".join(page.words)
    for name in compared.results:
        assert words.count(name) >= 5
        for metric in compared.metrics:
            result = compared.results[name][metric]
            assert f"{result.mean:.3f} ±{result.se_folds:.3f}" in words
            if result.p_value is not None:
                assert f"{result.wins} / {result.ties} / {result.losses}" in words
                if result.p_value >= 0.001:
                    assert f"{result.p_value:.3f}" in words
                    assert f"{result.unadjusted:.3f}" in words
    # By fold; two query by query; the metric's curves; two losses.
    assert page.tags["svg"] == 1 + 2 + 1 + 2


def test_a_page_without_history_has_no_curves(runs, tmp_path):
    pair = {"a": runs["worst"], "b": [f"{p}/per_query.tsv" for p in runs["worst"]]}
    compared = compare(pair, Options(plot_metric="arp"))
    assert html_page.curve_metric(compared) is None
    comparison_report.write(compared, str(tmp_path))
    text = (tmp_path / "comparison.html").read_text()
    assert "Learning curves" not in text and "ARP, query by query" in text


def test_the_curve_is_that_of_the_metric_most_runs_have(tmp_path):
    paths = {}
    for name, columns in (
        ("_a $x$", "epoch\tval_loss\tval_map\tval_ndcg_10"),
        ("b", "epoch\tval_loss\tval_map\tval_mrr"),
        ("c", "epoch\tval_loss\tval_err\tval_ndcg_10"),
    ):
        history = f"{columns}\n1\t1\t0.5\t0.5\n2\t1\t\tinf\n"
        path = write_run(tmp_path / name, {"mrr": [1, 0]}, history=history)
        paths[name] = [path]
    compared = compare(paths, Options(plot_metric="mrr"))
    assert html_page.curve_metric(compared) == "val_map"
    words = Page(html_page.metric_curves(compared, "val_map")).words
    assert {"_a $x$", "b", "validation MAP"} <= set(words) and "c" not in words
    for path in paths.values():  # No number is no curve.
        text = (tmp_path / path[0] / "history.tsv").read_text()
        text = text.replace("1\t0.5\t0.5", "1\tnan\t0.5")
        (tmp_path / path[0] / "history.tsv").write_text(text)
    assert html_page.curve_metric(compare(paths)) == "val_ndcg_10"


def one_fold(runs, *names):
    return {name: runs[name][:1] for name in names}


def test_what_one_fold_and_one_seed_cannot_tell_is_left_out(runs):
    page = html_page.html(compare(one_fold(runs, "best", "worst")))
    assert "Spread" not in page and "p-values" in page
    assert "Spread" in html_page.html(compare(runs))


def test_one_run_has_a_table_without_marks(runs, tmp_path):
    compared = compare(one_fold(runs, HOSTILE))
    comparison_report.write(compared, str(tmp_path))
    page = (tmp_path / "comparison.html").read_text()
    for section in ("p-values", "Wins", "query by query", "Spread"):
        assert section not in page
    assert "by fold" in page
    text = tables.terminal(compared, bold=False).replace(HOSTILE, "")
    assert f"{compared.results[HOSTILE]['ndcg_10'].mean:.3f}" in text
    assert "*" not in text and "best" not in text and "test over" not in text


# Titles, and what Markdown has of them.
TITLES = {
    "": "",
    "Plain.": "Plain.",
    "# a | *b*\n\nc": r"\# a \| \*b\* c.",
    "1. First": r"1\. First.",
    "- x_1 <b> & [y](z)": r"\- x\_1 \<b\> \& \[y\](z).",
    "Is it better?": "Is it better?",
    "```": r"\`\`\`.",
}


@pytest.mark.parametrize("title", TITLES)
def test_no_title_breaks_a_table(title, runs):
    pair = one_fold(runs, "best", "worst")
    compared = compare(pair, Options(title=title))
    means, _, effects = tables.markdown(compared).partition("\n| metric |")
    *table, blank, below, end = means.split("\n")
    assert effects.count("\n") == 2 + 3 + 2  # Heads, metrics, and one line of caption.
    assert (len(table), blank, end) == (4, "", "")
    assert below.startswith(f"{TITLES[title]} Mean over".lstrip())
    latex = tables.latex(compared)
    caption = latex[latex.index("\\caption{") : latex.index("\\begin{tabular}")]
    assert caption.count("\n") == 1
    assert " ".join(title.split()).rstrip(".") in tables.caption(compared)


def test_metrics_are_named_as_papers_do(runs, tmp_path):
    done = command(
        *(f"{name}={paths[0]}" for name, paths in one_fold(runs, "best").items()),
        *(f"b={runs['worst'][0]}", "--metrics=ndcg@10,arp", "--plot_metric=ndcg@10"),
        f"--output_dir={tmp_path}",
    )
    assert "NDCG@10" in done.stdout
    report = json.loads((tmp_path / "comparison.json").read_text())
    assert report["metrics"] == ["ndcg_10", "arp"]
