"""Missing features from files and arrays to a ranking, by training and export."""

import dataclasses

import numpy as np
import pandas
import pytest
import tensorflow as tf

from tests import elwc_files
from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext import Ranker, data
from tfr_ext.data.elwc.message import ExampleListWithContext
from tfr_ext.runs import run_file
from tfr_ext.serving import exporter
from tfr_ext.sources import data_splits, named_sources
from tfr_ext.training import (
    DataConfig,
    EvaluationConfig,
    LossConfig,
    ModelConfig,
    RankConfig,
    TrainingConfig,
    evaluate,
    rank,
    train,
)

LOSS = "list_net_loss"  # Its graph is built soon.


def gappy():
    lists = make_lists([3, 1, 4, 2, 5] * 4, num_features=3)
    lists.features[:] = lists.features.round(3)
    lists.features[::3, 1] = np.nan
    lists.features[:3, 2] = np.nan
    return lists


def small(tmp_path, **settings):
    """Settings of a short training."""
    return TrainingConfig(
        model=ModelConfig("mlp", hidden_sizes=(3,), batch_normalization=False),
        loss=LossConfig(LOSS),
        num_epochs=1,
        verbose="silent",
        draw_curves=False,
        model_dir=str(tmp_path / "run"),
        **settings,
    )


def write_text(path, lists):
    """LETOR text with NULL."""
    plain = dataclasses.replace(lists, features=np.nan_to_num(lists.features, nan=777))
    write_letor(path, plain)
    text = path.read_text()
    path.write_text(
        "".join(
            line.replace(":777.000000", ":NULL").replace(":777", ":NULL")
            for line in text.splitlines(True)
        )
    )
    assert "NULL" in path.read_text()


def write_table(path, lists):
    rows = ["query_id,label,a,b,c"]
    query = np.repeat(lists.query_ids, lists.lengths)
    for q, label, row in zip(query, lists.labels, lists.features):
        cells = ["" if np.isnan(x) else repr(float(x)) for x in row]
        rows.append(",".join([q, f"{label:g}", *cells]))
    path.write_text("\n".join(rows) + "\n")


def write_elwc(path, lists):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for q in range(lists.num_lists):
            message = ExampleListWithContext()
            name = message.context.features.feature["query_id"].bytes_list
            name.value.append(lists.query_ids[q].encode())
            for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
                feature = message.examples.add().features.feature
                feature["float_features"].float_list.value.extend(lists.features[i])
                feature["label"].float_list.value.append(lists.labels[i])
            writer.write(message.SerializeToString())


FILES = {
    "text": ("txt", write_text),
    "table": ("csv", write_table),
    "elwc": ("tfrecord", write_elwc),
}


@pytest.mark.parametrize(
    "kind",
    [
        "text",
        pytest.param("table", marks=pytest.mark.grid),
        pytest.param("elwc", marks=pytest.mark.grid),
    ],
)
def test_an_export_scores_files_with_gaps_as_training_does(kind, tmp_path):
    if kind == "elwc":
        pytest.importorskip("tensorflow_ranking")
    ending, write = FILES[kind]
    path = tmp_path / f"all.{ending}"
    lists = gappy()
    write(path, lists)
    where = dict.fromkeys(("train_path", "valid_path", "test_path"), str(path))
    config = TrainingConfig(
        data=DataConfig(dataset=kind, missing="indicator", **where),
        model=ModelConfig(
            hidden_sizes=(3,),
            feature_transforms=("standard+query_rank",),
            feature_noise=0.1,
        ),
        loss=LossConfig(LOSS),
        num_epochs=1,
        verbose="silent",
        draw_curves=False,
        model_dir=str(tmp_path / "run"),
    )
    result = train(config)  # Compares the scores of the export with those in run.trec.
    scorer = exporter.load_scorer(result.paths["export"])
    scores = scorer.scores(lists, 4)
    assert scorer.takes_missing and np.isfinite(scores).all()
    np.testing.assert_allclose(
        data.score_lists(result.model, lists, 4), scores, rtol=1e-4, atol=1e-6
    )
    found = evaluate(
        EvaluationConfig(
            export=result.paths["export"],
            data=DataConfig(dataset=kind, test_path=str(path)),
        )
    )
    for name, value in result.metrics["test"].items():
        np.testing.assert_allclose(found.metrics[name], value, rtol=1e-5)
    ranked = RankConfig(
        export=result.paths["export"],
        input=str(path),
        output=str(tmp_path / "ranked.csv"),
        dataset=kind,
    )
    assert rank(ranked).num_items == lists.num_items
    best = (tmp_path / "ranked.csv").read_text().splitlines()[1].split(",")
    np.testing.assert_allclose(float(best[-1]), scores[:3].max(), rtol=1e-5)
    text = (tmp_path / "run" / "flags.cfg").read_text()
    assert (
        "--missing=indicator" in text
        and run_file.settings(text, TrainingConfig) == config
    )


@pytest.mark.parametrize(
    ("missing", "lacking", "expected"),
    [
        ("auto", [], 0.0),  # As TensorFlow Ranking's sample leaves out what is 0.
        ("auto", [np.nan], 0.0),
        pytest.param("-1.5", [], -1.5, marks=pytest.mark.grid),
        ("indicator", [np.nan], np.nan),
    ],
)
def test_features_that_protos_lack_are_the_same_in_training_and_serving(
    missing, lacking, expected, tmp_path
):
    """Absent features, and with `lacking` also NaN."""
    rng, names = np.random.default_rng(0), ["a", "b", "c"]
    path, records = tmp_path / "all.tfrecord", []
    for length in [3, 1, 4, 2, 5] * 3:
        examples = [
            {n: [rng.normal()] for n in names if rng.random() < 0.5}
            for _ in range(length)
        ]
        if lacking:
            examples[0]["b"] = lacking
        rows = [{**x, "utility": [float(i % 3)]} for i, x in enumerate(examples)]
        records.append(elwc_files.elwc(rows))
    elwc_files.write(path, records)
    where = dict.fromkeys(("train_path", "valid_path", "test_path"), str(path))
    settings = {"elwc_features": ("a", "b", "c"), "elwc_label": "utility"}
    config = DataConfig(dataset="elwc", missing=missing, **where, **settings)
    result = train(small(tmp_path, data=config))
    lists = named_sources.source(config).read("test", None)
    same = np.isnan if np.isnan(expected) else lambda x: x == expected
    assert same(lists.features).sum() > 40
    assert np.isnan(lists.features).sum() >= 15 * len(lacking)
    scorer = exporter.load_scorer(result.paths["export"])
    assert scorer.takes_missing == bool(lacking)
    scores = scorer.scores(lists, 4)
    version = tf.saved_model.load(f"{result.paths['export']}/1")
    served = version.signatures["elwc"]
    protos = tf.constant([record.SerializeToString() for record in records])
    found = served(examples=protos)["scores"].numpy()
    found = found[np.arange(5) < lists.lengths[:, np.newaxis]]
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)
    # A list of which no item has any feature comes first; by default, ranking and
    # evaluation take what is absent as training did.
    rows = [{"utility": [1.0]}, {"utility": [0.0]}]
    alone = elwc_files.write(tmp_path / "one", [elwc_files.elwc(rows), *records])
    ranked = RankConfig(
        export=result.paths["export"],
        input=alone,
        output=str(tmp_path / "ranked.csv"),
        dataset="elwc",
        elwc_features=("a", "b", "c"),
    )
    assert rank(ranked).num_items == 2 + lists.num_items
    written = (tmp_path / "ranked.csv").read_text().splitlines()[3:]
    written = [float(line.split(",")[-1]) for line in written]
    inner = lists.row_splits[1:-1]
    ordered = [np.sort(x)[::-1] for x in np.split(scores, inner)]
    np.testing.assert_allclose(written, np.concatenate(ordered), rtol=1e-5, atol=1e-6)
    found = evaluate(
        EvaluationConfig(
            export=result.paths["export"],
            data=DataConfig(dataset="elwc", test_path=str(path), **settings),
        )
    )
    for name, value in result.metrics["test"].items():
        np.testing.assert_allclose(found.metrics[name], value, rtol=1e-5)


@pytest.mark.parametrize("kind", ["text", "table"])
def test_a_model_that_cannot_fill_gaps_refuses_them(kind, tmp_path, capsys):
    """What no training item lacks may be missing nowhere else, unless it is told."""
    ending, write = FILES[kind]
    whole, gaps = tmp_path / f"whole.{ending}", tmp_path / f"gaps.{ending}"
    lists = gappy()
    write(gaps, lists)
    full = np.nan_to_num(lists.features, nan=0.25)
    (write_letor if kind == "text" else write)(
        whole, dataclasses.replace(lists, features=full)
    )
    config = small(tmp_path, data=DataConfig(dataset=kind, train_path=str(whole)))
    export = train(config).paths["export"]
    assert not exporter.load_scorer(export).takes_missing
    assert "are missing" not in capsys.readouterr().out
    to_rank = {"export": export, "input": str(gaps), "output": str(tmp_path / "a.csv")}
    first = "feature 2 of item 1" if kind == "text" else "column 'b'"
    with pytest.raises(ValueError, match=f"{first} is nan"):
        rank(RankConfig(**to_rank, dataset=kind))
    test = DataConfig(dataset=kind, test_path=str(gaps))
    with pytest.raises(ValueError, match="of item 1 is nan, and the model was trained"):
        evaluate(EvaluationConfig(export=export, data=test))
    if kind == "text":
        rank(RankConfig(**to_rank, dataset=kind, missing="0.25"))
    strict = dataclasses.replace(config.data, missing="0", train_path=(str(gaps),))
    anew = dataclasses.replace(config, data=strict, model_dir=str(tmp_path / "anew"))
    if kind == "table":
        with pytest.raises(ValueError, match="is nan, expected a finite number"):
            train(anew)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("models", [1, pytest.param(2, marks=pytest.mark.grid)])
def test_gaps_of_any_split_are_filled_which_is_said_once(
    split, models, tmp_path, capsys
):
    lists = gappy()
    whole = dataclasses.replace(lists, features=np.nan_to_num(lists.features))
    splits = {name: whole for name in ("train", "valid", "test")} | {split: lists}
    config = small(tmp_path, num_models=models)
    result = train(config, data_splits.Splits(**splits))
    assert capsys.readouterr().out.count("Features are missing: the model puts") == 1
    assert exporter.load_scorer(result.paths["export"]).takes_missing
    scores = {
        name: data.score_lists(result.model, some, 8) for name, some in splits.items()
    }
    mean = np.nanmean(splits["train"].features, axis=0)
    filled = np.where(np.isnan(lists.features), mean, lists.features)
    expected = data.score_lists(
        result.model, dataclasses.replace(lists, features=filled), 8
    )
    np.testing.assert_allclose(scores[split], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", FILES)
def test_gaps_of_files_are_nan_unless_a_number_takes_their_place(kind, tmp_path):
    if kind == "elwc":
        pytest.importorskip("tensorflow_ranking")
    ending, write = FILES[kind]
    path, lists = tmp_path / f"all.{ending}", gappy()
    write(path, lists)

    def read(missing):
        settings = DataConfig(dataset=kind, test_path=str(path), missing=missing)
        return named_sources.source(settings).read("test", None).features

    for missing in ("auto", "mean", "indicator"):
        np.testing.assert_allclose(read(missing), lists.features, rtol=1e-6)
    if kind == "text":
        filled = np.nan_to_num(lists.features, nan=-1.5)
        np.testing.assert_allclose(read(-1.5), filled, rtol=1e-6)
    else:
        with pytest.raises(ValueError, match="nan"):
            read("0")


def test_a_ranker_takes_nan_where_fit_had_some():
    lists = gappy()
    whole = np.nan_to_num(lists.features)
    ranker = Ranker(LOSS, model="mlp", hidden_sizes=(3,), num_epochs=1)
    ranker.fit(whole, lists.labels, group=lists.lengths)
    with pytest.raises(ValueError, match="Row 0 .*column 1 is nan"):
        ranker.predict(lists.features)
    judged = lists.features, lists.labels
    with pytest.raises(ValueError, match="Row 0 .*column 1 is nan"):
        ranker.score(*judged, group=lists.lengths)
    ranker.set_params(settings={"missing": "0"})
    with pytest.raises(ValueError, match="neither NaN nor infinity"):
        ranker.fit(*judged, group=lists.lengths)
    ranker.set_params(settings=None)
    ranker.fit(
        whole,
        lists.labels,
        group=lists.lengths,
        eval_set=judged,
        eval_group=lists.lengths,
    )
    assert np.isfinite(ranker.predict(lists.features)).all()
    ranker.fit(*judged, group=lists.lengths)
    assert np.isfinite(ranker.predict(lists.features)).all()
    frame = pandas.DataFrame(lists.features, columns=list("abc"))
    ranker.fit(frame, lists.labels, group=lists.lengths)
    assert np.isfinite(ranker.predict(frame)).all()
    infinite = lists.features.copy()
    infinite[1, 0] = np.inf
    with pytest.raises(ValueError, match="inf"):
        ranker.predict(infinite)


def test_scikit_learn_is_told_whether_features_may_be_nan():
    for settings, expected in ((None, True), ({"missing": 0}, False), ("wrong", True)):
        tags = Ranker(settings=settings).__sklearn_tags__()
        assert tags.input_tags.allow_nan == expected


def test_numbers_are_told_as_short_texts():
    written = "--dataset=text\n--missing=-1.5\n--train_path=a.txt\n"
    config = run_file.settings(written, TrainingConfig)
    assert config.data.missing == "-1.5" and config.data.missing_value == -1.5
    assert not [x for x in run_file.differences(written, config) if "missing" in x]
    assert DataConfig(missing=0.0) == DataConfig(missing="0") != DataConfig()
    for wrong in ("median", "nan", "inf", "1e39", "", None, True):
        with pytest.raises(ValueError, match="`missing` must be"):
            DataConfig(missing=wrong)
    for wrong in ("median", "nan"):
        with pytest.raises(ValueError, match="`missing` must be"):
            RankConfig(missing=wrong, input="a", output="b.csv")
