"""Runs, read from directories as the commands leave them."""

import numpy as np
import pytest

from tests.files import write_run
from tests.helpers import make_lists
from tfr_ext import evaluation
from tfr_ext.evaluation import runs
from tfr_ext.runs import outputs


def test_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1", "a/2", "b", "odd=name", "x[1]"):
        write_run(tmp_path / name, {"map": [0.5, 1]})
    assert runs.parse(
        [
            "A (k=1)=a/*",
            "b/",
            "B=b/per_query.tsv",
            "odd=name",
            "c=a/1,a/2,odd=name",
            "x[1]",
        ]
    ) == {
        "A (k=1)": ["a/1", "a/2"],
        "b": ["b/"],
        "B": ["b/per_query.tsv"],
        "odd=name": ["odd=name"],
        "c": ["a/1", "a/2", "odd=name"],
        "x[1]": ["x[1]"],
    }


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["A=a/*", "nowhere"], "nowhere: nothing is at 'nowhere'"),
        (["A=a/*,b/x*"], "A=a/.*: nothing is at 'b/x.*'"),
        (["a/*"], r"a/\*: several directories need a name, as in NAME=a/\*"),
        (["a/1", "1=a/2"], "Two runs are called '1': a/1 and a/2"),
        (["=a/1"], "expected a name before '='"),
    ],
)
def test_wrong_arguments(arguments, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1", "a/2", "b"):
        write_run(tmp_path / name, {"map": [0.5, 1]})
    with pytest.raises(ValueError, match=text):
        runs.parse(arguments)


def test_folds_seeds_and_all_that_a_directory_has(tmp_path):
    history = "epoch\tloss\tval_ndcg\n1\t0.5\t0.25\n2\tnan\t\n"
    for fold, queries in enumerate((["x", "y"], ["z"])):
        for seed in (1, 2):
            write_run(
                tmp_path / f"{fold}-{seed}",
                {"ndcg": [seed / 4, np.nan][: len(queries)]},
                queries[:: 3 - 2 * seed],  # In another order.
                history=history if seed == 1 else "",
                seed=seed,
                labels="as given",
            )
    run = runs.read("A", runs.parse([f"A={tmp_path}/*"])["A"])
    assert [[m.seed for m in fold] for fold in run.folds] == [[1, 2], [1, 2]]
    assert run.metrics == ["ndcg"]
    first, second = run.folds[0]
    assert first.queries == ("x", "y") and second.queries == ("y", "x")
    np.testing.assert_array_equal(first.aligned("ndcg", ["x", "y"]), [0.25, np.nan])
    np.testing.assert_array_equal(second.aligned("ndcg", ["x", "y"]), [np.nan, 0.5])
    assert first.convention == {"gain": "linear", "labels": "as given"}
    np.testing.assert_array_equal(first.history["loss"], [0.5, np.nan])
    np.testing.assert_array_equal(first.history["val_ndcg"], [0.25, np.nan])
    assert second.history == {}


def test_what_the_commands_write(tmp_path):
    lists = make_lists([3, 1, 4], labels=[0, 1, 2, 0, 1, 0, 0, 2])
    convention = evaluation.Convention(empty_list="skip", max_label=2.0)
    values = evaluation.per_query(
        lists, np.arange(8.0), evaluation.DEFAULT_METRICS, convention
    )
    outputs.write_per_query(str(tmp_path), lists, values)
    report = {"convention": convention.as_dict(), "seed": 3}
    (tmp_path / "metrics.json").write_text(outputs.as_json(report))
    (member,) = runs.read("A", [str(tmp_path)]).members
    assert list(member.queries) == lists.query_ids and member.seed == 3
    assert member.convention == convention.as_dict()
    assert list(member.values) == list(evaluation.DEFAULT_METRICS)
    for name, expected in values.items():
        assert np.isnan(expected[1])
        np.testing.assert_allclose(member.values[name], expected, rtol=1e-8)


def test_a_file_of_another_name_stands_alone(tmp_path):
    write_run(tmp_path, {"map": [1, 0]}, seed=3)
    (tmp_path / "per_query.tsv").rename(tmp_path / "mine.tsv")
    (member,) = runs.read("A", [str(tmp_path / "mine.tsv")]).members
    assert member.convention is None and member.seed is None


@pytest.mark.parametrize(
    "text, message",
    [
        ("query\tmap\nq\t1\nq\t0\n", ":3: query 'q' comes twice"),
        ("query\tmap\tmrr\nq\t1\tx\n", ":2: mrr: expected a finite number. Found: 'x'"),
        ("query\tmap\nq\t1\np\tnan\n", ":3: map: expected a finite number"),
        ("query\tmap\tmrr\nq\t\tinf\n", ":2: mrr: expected a finite number"),
        ("query\tmap\nq\t1\t2\n", ":2: expected 2 cells, as the header has. Found: 3"),
        ("topic\tmap\nq\t1\n", ":1: expected a header 'query'"),
        ("query\tmap\tmap\nq\t1\t1\n", ":1: expected a header 'query'"),
        ("query\tmap\n", ": expected at least one query"),
        ("", ":1: expected a header 'query'"),
    ],
)
def test_wrong_files(text, message, tmp_path):
    path = tmp_path / "per_query.tsv"
    path.write_text(text)
    with pytest.raises(ValueError) as error:
        runs.read("A", [str(tmp_path)])
    assert f"{path}{message}" in str(error.value)


def test_wrong_directories(tmp_path):
    first = write_run(tmp_path / "a", {"map": [1, 0]}, ["x", "y"])
    with pytest.raises(ValueError, match="A: .*per_query.tsv is given twice"):
        runs.read("A", [first, f"{first}/per_query.tsv"])
    other = write_run(tmp_path / "b", {"map": [1, 0, 1]}, ["z", "y", "w"])
    with pytest.raises(ValueError, match=r"a/.*\(2 queries\).*\(3\).* 1 .*such as 'y'"):
        runs.read("A", [first, other])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: expected a directory with per_query"):
        runs.read("A", [str(tmp_path / "empty")])
    (tmp_path / "a" / "metrics.json").write_text("{")
    with pytest.raises(ValueError, match="metrics.json: expected a JSON object"):
        runs.read("A", [first])


def test_names_are_one_however_a_file_spells_them(tmp_path):
    """Files of other programs may have names as they are."""
    folds = []
    for name, queries in (("a", ["red shoes", "a\u00a0b"]), ("b", ["red%20shoes"])):
        queries += ["a%C2%A0b"][: 2 - len(queries)]
        folder = write_run(tmp_path / name, {"map": [0.5, 1]}, queries)
        (member,) = runs.read(name, [folder]).members
        folds.append(member.queries)
    assert folds == [("red%20shoes", "a%C2%A0b")] * 2
    folder = write_run(tmp_path / "c", {"map": [0, 1]}, ["red shoes", "red%20shoes"])
    with pytest.raises(ValueError, match="c/per_query.tsv:3: query 'red%20shoes' come"):
        runs.read("C", [folder])
