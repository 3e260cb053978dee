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
from tfr_ext.sources import named_sources
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
            data=DataConfig(dataset=kind, missing="mean", test_path=str(path)),
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
    "missing", ["0", pytest.param("-1.5", marks=pytest.mark.grid), "indicator"]
)
def test_features_that_protos_lack_are_missing_in_training_and_serving(
    missing, tmp_path
):
    """From a file that leaves out what is 0, as TensorFlow Ranking's sample does."""
    rng, names = np.random.default_rng(0), ["a", "b", "c"]
    path, records = tmp_path / "all.tfrecord", []
    for length in [3, 1, 4, 2, 5] * 3:
        examples = [
            {n: [rng.normal()] for n in names if rng.random() < 0.5}
            for _ in range(length)
        ]
        rows = [{**x, "utility": [float(i % 3)]} for i, x in enumerate(examples)]
        records.append(elwc_files.elwc(rows))
    elwc_files.write(path, records)
    where = dict.fromkeys(("train_path", "valid_path", "test_path"), str(path))
    settings = {"elwc_features": ("a", "b", "c"), "elwc_label": "utility"}
    config = DataConfig(dataset="elwc", missing=missing, **where, **settings)
    result = train(
        TrainingConfig(
            data=config,
            model=ModelConfig(hidden_sizes=(3,)),
            loss=LossConfig(LOSS),
            num_epochs=1,
            verbose="silent",
            draw_curves=False,
            model_dir=str(tmp_path / "run"),
        )
    )
    lists = named_sources.source(config).read("test", None)
    absent = np.isnan(lists.features) | (lists.features == config.missing_value)
    assert absent.sum() > 40
    scores = exporter.load_scorer(result.paths["export"]).scores(lists, 4)
    version = tf.saved_model.load(f"{result.paths['export']}/1")
    served = version.signatures["elwc"]
    protos = tf.constant([record.SerializeToString() for record in records])
    found = served(examples=protos)["scores"].numpy()
    found = found[np.arange(5) < lists.lengths[:, np.newaxis]]
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)
    # A single list, of which no item has any feature, is ranked too.
    alone = elwc_files.write(tmp_path / "one", [elwc_files.elwc([{}, {}])])
    ranked = RankConfig(
        export=result.paths["export"],
        input=alone,
        output=str(tmp_path / "ranked.csv"),
        dataset="elwc",
        elwc_features=("a", "b", "c"),
    )
    assert rank(ranked).num_items == 2


def test_a_model_that_cannot_fill_gaps_refuses_them(tmp_path):
    path = tmp_path / "all.csv"
    write_table(path, gappy())
    config = DataConfig(dataset="table", train_path=str(path))
    with pytest.raises(ValueError, match="is nan, expected a finite number"):
        train(TrainingConfig(data=config, model_dir=str(tmp_path / "run")))


@pytest.mark.parametrize("kind", FILES)
def test_gaps_of_files_are_nan_only_if_asked_for(kind, tmp_path):
    if kind == "elwc":
        pytest.importorskip("tensorflow_ranking")
    ending, write = FILES[kind]
    path, lists = tmp_path / f"all.{ending}", gappy()
    write(path, lists)

    def read(missing):
        settings = DataConfig(dataset=kind, test_path=str(path), missing=missing)
        return named_sources.source(settings).read("test", None).features

    for missing in ("mean", "indicator"):
        np.testing.assert_allclose(read(missing), lists.features, rtol=1e-6)
    if kind == "text":
        filled = np.nan_to_num(lists.features, nan=-1.5)
        np.testing.assert_allclose(read(-1.5), filled, rtol=1e-6)
    else:
        with pytest.raises(ValueError, match="nan"):
            read("0")


def test_a_ranker_takes_nan_if_told_to():
    lists = gappy()
    ranker = Ranker(LOSS, model="mlp", hidden_sizes=(3,), num_epochs=1)
    with pytest.raises(ValueError, match="neither NaN nor infinity"):
        ranker.fit(lists.features, lists.labels, group=lists.lengths)
    ranker.set_params(settings={"missing": "mean"})
    ranker.fit(lists.features, lists.labels, group=lists.lengths)
    assert np.isfinite(ranker.predict(lists.features)).all()
    frame = pandas.DataFrame(lists.features, columns=list("abc"))
    ranker.fit(frame, lists.labels, group=lists.lengths)
    assert np.isfinite(ranker.predict(frame)).all()
    infinite = lists.features.copy()
    infinite[1, 0] = np.inf
    with pytest.raises(ValueError, match="inf"):
        ranker.predict(infinite)


def test_numbers_are_told_as_short_texts():
    written = "--dataset=text\n--missing=-1.5\n--train_path=a.txt\n"
    config = run_file.settings(written, TrainingConfig)
    assert config.data.missing == "-1.5" and config.data.missing_value == -1.5
    assert not [x for x in run_file.differences(written, config) if "missing" in x]
    assert DataConfig(missing=0.0) == DataConfig()
    for wrong in ("median", "nan", "inf", "1e39", "", None, True):
        with pytest.raises(ValueError, match="`missing` must be"):
            DataConfig(missing=wrong)
    for wrong in ("median", "nan"):
        with pytest.raises(ValueError, match="`missing` must be"):
            RankConfig(missing=wrong, input="a", output="b.csv")
