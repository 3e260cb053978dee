"""The examples run as a user runs them, and their pages show their code."""

import gzip
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tests.helpers import needs_tfr
from tests.text import encoder_files

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "examples"
PAGES = ROOT / "docs" / "examples"
BUILD = runpy.run_path(str(FOLDER / "build.py"))
TOPICS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "wave", "metal", "heat", "radio", "lens")
TOPICS += ("the", "run")
# TensorFlow's and its own users' warnings, none of which a script can help.
KNOWN = re.compile(
    r"^(WARNING: All log messages before absl|I0000 |WARNING:tensorflow:"
    r"|.*tensorflow/.*:\d+\] |.*tsl/.*:\d+\] |To enable the following instructions)"
)


def numbers(text, pattern):
    """The numbers that a pattern finds, once."""
    (found,) = re.findall(pattern, text, re.M)
    return [float(x) for x in ([found] if isinstance(found, str) else found)]


def check_plain_fit(text):
    for metric in ("ndcg_5", "mrr"):
        before, after = numbers(text, rf"{metric} +(\S+) +(\S+)")
        assert after > before + 0.3
    ragged, padded = numbers(text, r"ragged lists (\S+), of padded lists (\S+)")
    assert ragged == padded
    as_it_came = re.search(r"as it came (.*)", text)[1].split()
    ranked = re.search(r"ranked +(.*)", text)[1].split()
    assert sorted(as_it_came) == sorted(ranked) != ranked


def check_arrays_and_groups(text):
    models = "random|Ranker|LightGBM|mean of both"
    rows = re.findall(rf"^({models}) +" + r"([01]\.\d+) ?" * 5, text, re.M)
    ndcg = {row[0]: float(row[4]) for row in rows}
    assert ndcg["Ranker"] > ndcg["random"] + 0.4
    assert ("LightGBM" in ndcg) != ("LightGBM is left out" in text)
    # By Ranker's own evaluation and by that of any scores.
    (own,) = numbers(text, r"ndcg_10 +(\S+)")
    assert own == pytest.approx(ndcg["Ranker"], abs=6e-4)
    assert "scores the same: True" in text


def check_shop(text):
    price, brand, words = (float(x) for x in re.findall(r"NDCG@10 (\S+)", text))
    assert price < brand and max(price, brand) + 0.1 < words
    best = re.search(r"^ *\S+  (Umbrella|Purple|Red)", text, re.M)
    assert best[1] == "Umbrella"
    assert "served as predicted: True" in text


def check_compare_losses(text):
    a, b = numbers(text, r"mean +(\S+) +(\S+)")
    assert min(a, b) > 0.7
    (change,) = numbers(text, r"NeuralSort - ListNet: (\S+)")
    assert change == pytest.approx(b - a, abs=2e-4)
    low, high = numbers(text, r"one seed of each: (\S+) to (\S+)")
    assert low < change < high
    for test in ("t", "wilcoxon", "randomisation"):
        (p,) = numbers(text, rf"p = (\S+)  {test}$")
        assert 0 <= p < 0.05


def check_judgement_distributions(text):
    mean_label, by_grade, by_gain, mean_gain = (
        float(x) for x in re.findall(r"^NDCG@5 (\S+)", text, re.M)
    )
    assert by_gain > mean_label + 0.02
    assert by_gain > by_grade
    assert by_gain == pytest.approx(mean_gain, abs=0.02)
    assert numbers(text, r"true disagreement (\S+)")[0] > 0.8


def check_own_relaxation(text):
    computed, sampled = re.findall(r"positions +\[(.*)\]", text)
    for a, b in zip(computed.split(), sampled.split()):
        assert float(a) == pytest.approx(float(b), abs=0.02)
    (table,) = re.findall(r"error\n((?:.*\n)*?)(?: sigma)", text)
    errors = [float(line.split()[2]) for line in table.splitlines()]
    assert len(errors) == 6
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4
    rows = text.partition("trained\n")[2].splitlines()
    trained = [float(row.split()[2]) for row in rows]
    assert min(trained[1:3]) > 0.9 > max(trained[0], trained[3])


def check_tfr_pipeline(text):
    before, after = numbers(text, r": (\S+) at random, (\S+) as served")
    assert after > before + 0.3


def example(name):
    """A parameter of tests, skipped where it needs what is not there."""
    marks = [needs_tfr] if name == "tfr_pipeline" else []
    if name != "plain_fit":
        marks.append(pytest.mark.grid)
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [example(name) for name in BUILD["EXAMPLES"]])
def test_it_runs_and_shows_what_it_says(name, tmp_path):
    given = {"MPLBACKEND", "TF_USE_LEGACY_KERAS"}
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"],
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if k not in given},
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    unknown = [x for x in done.stderr.splitlines() if x and not KNOWN.match(x)]
    assert not unknown
    globals()[f"check_{name}"](done.stdout)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]


@pytest.mark.grid
def test_a_collection_of_beir_is_ranked_again(tmp_path):
    """With the protocol of the paper on texts, but short; a second call only compares.

    A document is relevant if it has the query's topic twice, as BM25 finds. One query
    has no candidates, and counts as 0; another is not judged.
    """
    encoder_files.write(tmp_path / "encoder", words=TOPICS)
    rng = np.random.default_rng(0)
    topics = rng.integers(5, size=60)
    documents = [
        {
            "_id": f"d{i}",
            "title": TOPICS[4 + topic],
            "text": f"{TOPICS[4 + topic]} the {TOPICS[4 + i % 5]}",
        }
        for i, topic in enumerate(topics)
    ]
    queries = [{"_id": f"{i}", "text": TOPICS[4 + i % 5]} for i in range(20)]
    queries += [{"_id": "20", "text": "zzz"}, {"_id": "not judged", "text": "heat"}]
    for name, rows in (("corpus.jsonl.gz", documents), ("queries.jsonl", queries)):
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        path = tmp_path / name
        if name.endswith("gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
    lines = [
        f"{i}\td{j}\t1\n" for i in range(21) for j in np.flatnonzero(topics == i % 5)
    ]
    header = "query-id\tcorpus-id\tscore\n"
    (tmp_path / "test.tsv").write_text(header + "".join(lines))
    fold = np.random.default_rng(1).permutation(21) % 5  # As the script draws it.
    held = f"{fold[20]}"
    command = [
        *(sys.executable, str(FOLDER / "rerank_texts.py"), "--encoder=encoder"),
        *("--corpus=corpus.jsonl.gz", "--queries=queries.jsonl", "--qrels=test.tsv"),
        *("--output=out", "--depth=30", "--num_epochs=2", "--document_tokens=12"),
        *("--query_tokens=4", "--folds", held),
    ]
    first, second, third = (
        subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            timeout=600,
        )
        for more in ([], [], ["--num_epochs=3"])
    )
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.count("Epoch 1: ") == 2
    assert "Epoch" not in second.stdout
    assert first.stdout.endswith(second.stdout)
    assert "fits.json has --num_epochs=2, not 3. Name another" in third.stderr
    of_test = {f"{i}" for i in np.flatnonzero(fold == fold[20])}
    for name in ("run", "cosine", "smoothi_loss", "pairwise_hinge_loss"):
        path = tmp_path / "out" / name / f"fold{held}" / "per_query.tsv"
        table = pd.read_csv(path, sep="\t", dtype={"query": str}, index_col="query")
        assert {*table.index} == of_test
        assert not table.loc["20"].any()
        if name == "run":  # BM25 ranks what is relevant first.
            assert table["precision_5"].sum() == len(of_test) - 1


def test_every_script_is_an_example():
    scripts = {path.stem for path in FOLDER.glob("*.py")} - {"build", "rerank_texts"}
    assert scripts == {*BUILD["EXAMPLES"]}
    assert (PAGES / "index.md").read_text() == BUILD["index"]()


@pytest.mark.parametrize("name", BUILD["EXAMPLES"])
def test_the_page_has_the_cells_of_the_script(name):
    """All of them, in order; between them stands nothing but what they put out."""
    rest = (PAGES / f"{name}.md").read_text()
    for cell in BUILD["cells"](name):
        wanted = f"```python\n{cell.text}\n```\n" if cell.is_code else f"{cell.text}\n"
        between, found, rest = rest.partition(wanted)
        assert found, f"`make examples` writes what is missing: {wanted}"
        between = re.sub(r"```text\n.*?\n```\n", "", between, flags=re.S)
        assert "```" not in between
    assert len(re.findall(rf"^!\[.+\]\(figures/{name}\.png\)$", rest, re.M)) == 1
    assert (PAGES / "figures" / f"{name}.png").stat().st_size < 60_000


@pytest.mark.parametrize("name", BUILD["NOTEBOOKS"])
def test_the_notebook_has_the_cells_of_the_script(name):
    book = json.loads((FOLDER / f"{name}.ipynb").read_text())
    found = [
        BUILD["Cell"](cell["cell_type"] == "code", "".join(cell["source"]))
        for cell in book["cells"]
    ]
    assert found == BUILD["cells"](name)
    outputs = [x for cell in book["cells"] for x in cell.get("outputs", ())]
    kinds = {x["output_type"] for x in outputs}
    assert kinds == {"stream", "display_data"}
