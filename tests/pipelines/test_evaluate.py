"""The evaluation command, on exports and runs of the training command."""

import dataclasses
import functools
import json

import numpy as np
import pytest
import pytrec_eval

from tests import files
from tests.commands import run_command, train
from tests.files import write_letor
from tests.helpers import (
    assert_same_scores,
    assert_within,
    make_lists,
    metric_ranges,
    scores_of_run,
)
from tfr_ext import data, evaluation
from tfr_ext.training import DataConfig, EvaluationConfig, MetricsConfig
from tfr_ext.training import evaluate as evaluate_as

evaluate = functools.partial(run_command, "pipelines.evaluate")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model trained on text, with ties of constant features and empty lists."""
    directory = tmp_path_factory.mktemp("run")
    lists = make_lists([5, 1, 8, 3, 12] * 8, num_features=4, seed=3)
    lists.features[::3] = 0.5
    lists.labels[: lists.row_splits[6]] = 0
    lists.labels[lists.row_splits[12]] = 4  # The test lists have no such label.
    for split, chosen in (
        ("train", range(20)),
        ("valid", range(20, 30)),
        ("test", [0, 1, 2, *range(30, 40)]),
    ):
        write_letor(directory / f"{split}.txt", lists.select(list(chosen)))
    train(
        "--flagfile=configs/text.cfg",
        *(f"--{s}_path={directory}/{s}.txt" for s in ("train", "valid", "test")),
        f"--model_dir={directory}/model",
        "--model=mlp",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--empty_list=skip",
        *("--loss_param=", "--loss=list_net_loss", "--nodraw_curves"),
        "--verbose=silent",
    )
    return directory


@pytest.mark.two_graphs
@pytest.mark.parametrize("source", ["version", "versions", "run", "scores"])
def test_the_metrics_of_the_training_command_again(run, tmp_path, source):
    model = run / "model"
    lists = data.read_letor([str(run / "test.txt")])
    scores = scores_of_run(model / "run.trec", lists)
    written = tmp_path / "scores.txt"
    written.write_text("".join(f"{score!r}\n" for score in scores))
    flags = {
        "version": [f"--export={model}/export/1", f"--output_dir={tmp_path}"],
        "versions": [f"--export={model}/export", f"--output_dir={tmp_path}"],
        # Of a run nobody knows what it was trained on.
        "run": [
            f"--run={model}/run.trec",
            f"--output_dir={tmp_path}",
            "--max_label=4",
        ],
        "scores": [
            f"--scores={written}",
            f"--output_dir={tmp_path}",
            "--max_label=4",
        ],
    }[source]
    done = evaluate(
        "--dataset=text", f"--test_path={run}/test.txt", "--empty_list=skip", *flags
    )
    expected = json.loads((model / "metrics.json").read_text())
    report = json.loads((tmp_path / "metrics.json").read_text())
    ties = "by document name" if source == "run" else "by position"
    assert report["convention"] == {**expected["convention"], "ties": ties}
    assert f"ties {ties}." in done.stdout
    assert report["convention"]["max_label"] == 4
    assert report["test"].keys() == expected["test"].keys()
    for value in report["test"].values():
        assert f"{value:.4f}" in done.stdout
    empty = report["empty_queries"]["test"]
    assert empty["ndcg_10"] == lists.num_empty > 0
    per_query = np.genfromtxt(tmp_path / "per_query.tsv", names=True, delimiter="\t")
    for name, count in empty.items():
        assert np.isnan(per_query[name]).sum() == count
    assert "Lists without a relevant item count as: skip" in done.stdout
    assert f"{empty['ndcg_10']} of {report['queries']['test']}" in done.stdout
    assert (tmp_path / "qrels.trec").read_text() == (model / "qrels.trec").read_text()
    if source.startswith("version"):  # Another graph than that of training.
        convention = evaluation.Convention(empty_list="skip", max_label=4.0)
        ranges = metric_ranges(lists, scores, [*report["test"]], convention)
        assert_within(report["test"], ranges)
        assert_within({name: per_query[name] for name in ranges}, ranges)
        assert_same_scores(scores_of_run(tmp_path / "run.trec", lists), scores)
        return
    for name, value in expected["test"].items():
        np.testing.assert_allclose(report["test"][name], value, rtol=1e-12)
    assert (tmp_path / "per_query.tsv").read_text() == (
        model / "per_query.tsv"
    ).read_text()
    ours = (tmp_path / "run.trec").read_text().replace("tfr_ext", "list_net_loss")
    theirs = (model / "run.trec").read_text()
    if source == "run":  # its scores are minus the rank
        ours, theirs = (
            [[*line.split()[:4], line.split()[5]] for line in text.splitlines()]
            for text in (ours, theirs)
        )
    assert ours == theirs


def test_validation_lists_are_ranked_where_there_are_some(run, tmp_path):
    model = run / "model"
    both = tmp_path / "both.trec"
    texts = [(model / f"run{s}.trec").read_text() for s in ("", ".valid")]
    both.write_text("".join(texts))
    test = ("--dataset=text", f"--test_path={run}/test.txt", "--metrics=map")
    valid = f"--valid_path={run}/valid.txt"
    expected = json.loads((model / "metrics.json").read_text())
    for number, (flags, has_valid) in enumerate(
        [
            ([f"--export={model}/export", valid], True),
            ([f"--run={both}", valid], True),
            ([f"--run={model}/run.trec", valid], False),
            ([f"--export={model}/export"], False),
        ]
    ):
        out = tmp_path / str(number)
        done = evaluate(*test, *flags, f"--output_dir={out}")
        assert (out / "run.valid.trec").exists() == has_valid
        report = json.loads((out / "metrics.json").read_text())
        assert report["queries"] == {"test": 13, **({"valid": 10} if has_valid else {})}
        if has_valid:
            assert "valid: 10 queries" in done.stdout
            for name in ("qrels.trec", "qrels.valid.trec"):
                assert (out / name).read_text() == (model / name).read_text()
            ranked, theirs = (
                [line.split()[:4] for line in (d / "run.valid.trec").open()]
                for d in (out, model)
            )
            assert ranked == theirs
    assert expected["queries"] == {"valid": 10, "test": 13}


def test_a_run_that_lacks_queries_and_documents(run, tmp_path):
    """What is written is what was evaluated, by trec_eval too."""
    lines = (run / "model" / "run.trec").read_text().splitlines()
    lists = data.read_letor([str(run / "test.txt")])
    first, second = lists.query_ids[3:5]
    kept = [line for line in lines if not line.startswith(f"{first} ")]
    kept.remove(next(line for line in kept if line.startswith(f"{second} ")))
    kept += [f"{second} Q0 foreign 1 99 mine", "other Q0 foreign 1 99 mine"]
    (tmp_path / "foreign").write_text("\n".join(kept))
    done = evaluate(
        "--dataset=text",
        f"--test_path={run}/test.txt",
        f"--run={tmp_path}/foreign",
        "--metrics=ndcg_5,ndcg,map,mrr,opa,nerr_3",
        "--gain=linear",
        "--print_per_query",
        f"--output_dir={tmp_path}/out",
    )
    assert "1 of 13 judged queries are not in the run" in done.stdout
    assert "1 queries of the run have no judgements" in done.stdout
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (report["missing_queries"], report["unjudged_queries"]) == (1, 1)
    rows = [
        line.split("\t")
        for line in (tmp_path / "out" / "per_query.tsv").read_text().splitlines()
    ]
    assert [row[0] for row in rows] == ["query", *lists.query_ids]  # and no mean
    assert set(rows[4][1:]) == {"0"}  # the missing one
    printed = [line.split() for line in done.stdout.splitlines()]
    for row in rows[1:]:
        assert [row[0], *(f"{float(v):.4f}" for v in row[1:])] in printed
    with open(tmp_path / "out" / "run.trec") as file:
        again = pytrec_eval.parse_run(file)
    with open(tmp_path / "out" / "qrels.trec") as file:
        qrels = pytrec_eval.parse_qrel(file)
    assert "foreign" in again[second] and "foreign" not in qrels[second]
    names = {"ndcg_5": "ndcg_cut_5", "ndcg": "ndcg", "map": "map", "mrr": "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names.values())).evaluate(again)
    for row in rows[1:]:
        for name, value in zip(rows[0][1:], row[1:]):
            if name in names:
                expected = theirs.get(row[0], {}).get(names[name], 0.0)
                np.testing.assert_allclose(float(value), expected, atol=1e-6)
    flag_file = (tmp_path / "out" / "flags.cfg").read_text().splitlines()
    assert f"--run={tmp_path}/foreign" in flag_file
    assert "--gain=linear" in flag_file
    assert not any("output_dir" in line for line in flag_file)


RUN = "# by X\no Q0 a 1 3 t words\no Q0 b 2 2 t\nr Q0 a 1 1 t\ns Q0 a 1 1 t\n"
QRELS = "# by Y\no 0 b 2\no 0 c 1\nr 0 a -1\nr 0 b 1\np 0 a 3\n"


def test_a_run_and_judgements_without_data(tmp_path):
    """The same files and comparison as of a data set with these judgements."""
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "better").write_text(RUN.replace("b 2 2", "b 2 4"))
    (tmp_path / "qrels").write_text(QRELS)
    qrels, metrics = f"--qrels={tmp_path}/qrels", "--metrics=mrr,ndcg,err"
    for name in ("run", "better"):
        flags = (f"--run={tmp_path}/{name}", f"--output_dir={tmp_path}/{name}.out")
        done = evaluate(qrels, metrics, *flags)
    told = "test: 3 queries, 5 items, list size 1 to 2, labels 0:1 1:2 2:1 3:1, 0 "
    assert told in done.stdout and "features" not in done.stdout
    assert "1 of 3 judged queries are not in the run: they count as" in done.stdout
    assert "1 queries of the run have no judgements: they do not" in done.stdout
    out = tmp_path / "run.out"
    report = json.loads((out / "metrics.json").read_text())
    assert report["convention"]["max_label"] == 3 and report["labels"] == "as given"
    assert (report["missing_queries"], report["unjudged_queries"]) == (1, 1)
    assert report["queries"] == {"test": 3}
    assert report["test"]["mrr"] == pytest.approx(0.5 / 3)
    assert report["test"]["err"] == pytest.approx(3 / 8 / 2 / 3)
    evaluate(f"--flagfile={out}/flags.cfg", f"--output_dir={tmp_path}/again")
    assert files.content(tmp_path / "again") == files.content(out)
    # Its own files say the same, and a data set of these judgements too.
    own = (f"--run={out}/run.trec", f"--qrels={out}/qrels.trec")
    evaluate(*own, metrics, f"--output_dir={tmp_path}/own")
    letor = [
        f"{max(0, int(grade))} qid:{query} 1:0 #docid = {document}"
        for query, _, document, grade in map(str.split, QRELS.splitlines()[1:])
    ]
    (tmp_path / "lists").write_text("\n".join(letor) + "\n")
    evaluate(
        *("--dataset=text", f"--test_path={tmp_path}/lists", f"--run={tmp_path}/run"),
        *(metrics, f"--output_dir={tmp_path}/data"),
    )
    table = (out / "per_query.tsv").read_text()
    for other in ("own", "data"):
        assert (tmp_path / other / "per_query.tsv").read_text() == table
        assert (tmp_path / other / "run.trec").read_bytes() == (
            out / "run.trec"
        ).read_bytes()
    runs = [f"{tmp_path}/{name}" for name in ("run.out", "better.out", "data")]
    done = run_command("pipelines.compare", *runs)
    for name, value in (("run.out", 0.167), ("better.out", 0.333), ("data", 0.167)):
        assert f"{name:<11} {value}" in done.stdout


def test_judgements_take_the_place_of_data(tmp_path):
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    given = {name: str(tmp_path / name) for name in ("run", "qrels")}
    for settings, told in (
        ({"run": None}, "`qrels` needs a `run`"),
        ({"export": "x", "run": None}, "`qrels` needs a `run`"),
        ({"scores": "x", "run": None}, "`qrels` needs a `run`"),
        ({"export": "x"}, "exactly one of .* Received: `export` and `run`"),
        *(
            ({"data": DataConfig(**of_data)}, f"`{name}=.*` has no meaning")
            for of_data in (
                *({"dataset": "text"}, {"test_path": "x"}, {"rerank_run": "x"}),
                *({"eval_list_size": 2}, {"label_weights": (0, 1)}, {"seed": 2}),
                *({"num_features": 2}, {"missing": "mean"}, {"data_dir": "x"}),
            )
            for name in of_data
        ),
    ):
        with pytest.raises(ValueError, match=told):
            EvaluationConfig(**{**given, **settings})
    config = EvaluationConfig(
        **given,
        data=DataConfig(binarize_labels=2),
        metrics=MetricsConfig(("mrr", "err")),
        output_dir=str(tmp_path / "out"),
    )
    found = evaluate_as(config)
    assert found.per_query["mrr"].tolist() == [0.5, 0, 0]
    assert found.convention.max_label == 1
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert report["labels"] == "1 from 2 up, else 0"
    own = str(tmp_path / "out" / "qrels.trec")
    with pytest.raises(ValueError, match="qrels.trec is an input that `evaluate`"):
        evaluate_as(dataclasses.replace(config, qrels=own))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], ["exactly one of --export, --run and --scores. Received: none"]),
        (["--export=x", "--run=y"], ["Received: --export and --run"]),
        (["--run=x", "--scores=y"], ["Received: --run and --scores"]),
        (["--metrics=opa_5", "--run=x"], ["'opa' has no cut-off"]),
        (["--dataset=text", "--test_path={wide}", "--scores={wide}"],
         ["wide.txt:1: expected one number"]),
        (["--run=x", "--output_dir={model}"], ["did not write", "run.trec"]),
        (["--export=nowhere"], ["nowhere"]),
        (["--run=nowhere"], ["nowhere"]),
        (["--dataset=text", "--run=x"], ["--test_path"]),
        (["--metrics=ndgc", "--run=x"], ["ndgc"]),
        (["--export={export}"], ["4 features", "have 25"]),
        (["--export={export}", "--dataset=text", "--test_path={wide}"], ["5 is out"]),
        (
            ["--export={export}", "--dataset=text", "--test_path={wide}",
             "--num_features=5"],
            ["--num_features=5", "4 features"],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_bad_flags_are_told(run, tmp_path, flags, told):
    wide = tmp_path / "wide.txt"
    wide.write_text("1 qid:1 5:1\n")
    model = run / "model"
    known = {"export": model / "export", "wide": wide, "model": model}
    done = evaluate(*(flag.format(**known) for flag in flags), check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr, done.stderr
    for part in told:
        assert part in done.stderr
