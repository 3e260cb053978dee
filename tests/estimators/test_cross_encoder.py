"""`CrossEncoder`: it learns, ranks, is saved, and is served with strings."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from pipelines.client import rest
from tests.commands import ROOT
from tests.serving.bare_tensorflow import answer
from tests.serving.model_server import serving
from tests.text import encoder_files
from tfr_ext.core.system import lock
from tfr_ext.estimators import drawn_lists
from tfr_ext.serving import exporter
from tfr_ext.text import CrossEncoder, Encoder

TOPICS, NOISE = 6, 20
WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
    *(f"topic{i}" for i in range(TOPICS)),
    *(f"noise{i}" for i in range(NOISE)),
)
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
QUICK = {
    "query_tokens": 3,
    "document_tokens": 20,
    "max_length": 12,
    "learning_rate_schedule": "constant",
    "verbose": 0,
}


def plain(config):
    """Weights as of a BERT that has learnt nothing."""
    found = {}
    for name, weight in encoder_files.weights(config).items():
        known = float(name.endswith("LayerNorm.weight"))
        is_vector = "LayerNorm" in name or name.endswith("bias")
        found[name] = np.full_like(weight, known) if is_vector else weight * 0.4
    return found


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    return str(encoder_files.write(folder, of=plain, words=WORDS, limit=12, **SIZES))


def made(num_queries, seed=0, documents=12):
    """A document is relevant if it has the query's topic."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(num_queries):
        topic = rng.integers(TOPICS)
        for number in range(documents):
            of = topic if number < documents // 3 else rng.integers(TOPICS)
            words = [f"noise{i}" for i in rng.integers(NOISE, size=4)]
            words[rng.integers(4)] = f"topic{of}"
            texts = f"topic{topic}", " ".join(words)
            rows.append((f"q{query}", *texts, int(of == topic)))
    return pd.DataFrame(rows, columns=["query_id", "query", "document", "label"])


@pytest.fixture(scope="module")
def fitted(encoder):
    rates = {"learning_rate": 3e-3, "head_learning_rate": 6e-3}
    ranker = CrossEncoder(encoder, num_epochs=20, batch_size=16, **rates, **QUICK)
    return ranker.fit(made(100))


def ndcg(frame, scores):
    """NDCG@10 of binary labels, in plain loops."""
    found = []
    for _, rows in frame.assign(score=scores).groupby("query_id"):
        labels = rows.sort_values("score", ascending=False)["label"].to_numpy()[:10]
        discounts = 1 / np.log2(np.arange(2, 12))
        best = np.sort(rows["label"].to_numpy())[::-1][:10]
        found.append((labels * discounts).sum() / (best * discounts).sum())
    return np.mean(found)


def test_it_learns_what_topic_a_query_has(fitted):
    test = made(20, seed=1)
    chance = np.mean([ndcg(test, np.random.default_rng(i).random(len(test)))
                      for i in range(20)])  # fmt: skip
    assert ndcg(test, fitted.predict(test)) > chance + 0.2
    assert len(fitted.history_["loss"]) == 20 >= fitted.best_epoch_ >= 1
    assert (
        max(fitted.history_["ndcg_10"])
        == (fitted.history_["ndcg_10"][fitted.best_epoch_ - 1])
    )


def test_rank_returns_the_best_first(fitted):
    frame = made(1, seed=2)
    documents = frame["document"].tolist()
    scores = fitted.predict(frame)
    found = fitted.rank(frame["query"][0], documents, top_k=4)
    assert [place for place, _ in found] == [*np.argsort(-scores, kind="stable")[:4]]
    np.testing.assert_allclose([x for _, x in found], np.sort(scores)[::-1][:4], 1e-5)
    assert len(fitted.rank("topic1", documents)) == len(documents)
    assert fitted.rank("topic1", []) == []


def test_the_same_seed_gives_the_same_ranker(encoder):
    frame = made(12)
    one, two, other = (
        CrossEncoder(encoder, num_epochs=2, random_state=seed, **QUICK).fit(frame)
        for seed in (1, 1, 2)
    )
    assert one.history_ == two.history_ != other.history_
    np.testing.assert_array_equal(one.predict(frame), two.predict(frame))


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(str(tmp_path / "saved"))
    loaded = CrossEncoder.load(str(tmp_path / "saved"))
    frame = made(3, seed=3)
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    assert (loaded.history_, loaded.best_epoch_) == (
        *(fitted.history_, fitted.best_epoch_),
    )
    with pytest.raises(ValueError, match=r"has no cross_encoder\.json"):
        CrossEncoder.load(str(tmp_path))
    path = tmp_path / "saved" / "cross_encoder.json"
    path.write_text(path.read_text().replace('"monitor"', '"watched"'))
    with pytest.raises(ValueError, match=r"json is not what CrossEncoder.*'watched'"):
        CrossEncoder.load(str(tmp_path / "saved"))


def test_a_half_of_a_ranker_is_none(fitted, tmp_path, monkeypatch):
    fitted.save(str(tmp_path))
    monkeypatch.setattr(Encoder, "save", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted.save(str(tmp_path))
    with pytest.raises(ValueError, match=r"has no cross_encoder\.json"):
        CrossEncoder.load(str(tmp_path))
    with lock.alone_with(str(tmp_path / "cross_encoder.json"), "save"):
        with pytest.raises(ValueError, match="another process is writing"):
            fitted.save(str(tmp_path))


def test_served_with_strings(fitted, tmp_path):
    version = fitted.export(str(tmp_path))
    with pytest.raises(ValueError, match="takes texts, and no lists"):
        exporter.load_scorer(version)
    frame = made(3, seed=4)
    request = {
        "query": frame["query"][::12].tolist(),
        "document": frame["document"].to_numpy().reshape(3, 12).tolist(),
    }
    mask = np.ones([3, 12], bool)
    mask[1, 7:] = False
    found = answer(version, {**request, "mask": mask.tolist(), "topn": [12, 3, 1]})
    scores, expected = np.array(found["scores"]), fitted.predict(frame).reshape(3, 12)
    np.testing.assert_allclose(scores[mask], expected[mask], atol=2e-5)
    assert (scores[~mask] == np.finfo(np.float32).min).all()
    best = np.argsort(-expected[1, :7], kind="stable")[:3]
    assert found["order"][1] == [*best, *[-1] * 9]
    with serving(os.path.dirname(version)) as server:
        with rest.connect(server.address("rest"), "ranker") as client:
            assert client.inputs == ["query", "document"]
            told, _ = client.rank(request, topn=2)
    np.testing.assert_allclose(told, expected, atol=2e-5)
    served = tf.saved_model.load(version).signatures["masked"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a query for each list"):
        served(
            query=tf.constant(["a", "b"]),
            document=tf.constant([["c"]]),
            mask=tf.constant([[True]]),
        )


def test_other_losses_and_half_precision(encoder):
    frame = made(12)
    for given in (
        {"loss": "pirank_ndcg_loss", "num_relevant": 1, "num_irrelevant": 1},
        {"loss": "list_net_loss", "mixed_precision": True},
    ):
        ranker = CrossEncoder(encoder, num_epochs=1, **given, **QUICK).fit(frame)
        assert np.isfinite(ranker.predict(frame)).all()


def test_stops_early_and_tells_each_epoch(encoder, capsys):
    given = {**QUICK, "verbose": 1, "learning_rate": 1e-12, "head_learning_rate": 1e-12}
    ranker = CrossEncoder(
        encoder, num_epochs=9, early_stopping_patience=1, **given
    ).fit(made(12))
    told = capsys.readouterr().out.splitlines()
    assert len(told) == len(ranker.history_["loss"]) == 2
    assert "2 queries held out" in told[0] and ranker.best_epoch_ == 1


class Spoil(tf.keras.callbacks.Callback):
    """Makes all weights NaN before an epoch."""

    def __init__(self, before):
        super().__init__()
        self._before = before

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self._before:
            weights = self.model.get_weights()
            spoilt = [x * np.nan if x.dtype.kind == "f" else x for x in weights]
            self.model.set_weights(spoilt)


def test_scores_that_are_not_finite_end_the_training(encoder, capsys):
    frame = made(12)
    ranker = CrossEncoder(encoder, num_epochs=4, **{**QUICK, "verbose": 1})
    ranker.fit(frame, callbacks=[Spoil(2)])
    told = capsys.readouterr().out
    assert "not finite after epoch 3: training stops" in told
    assert len(ranker.history_["loss"]) == 2 >= ranker.best_epoch_
    assert np.isfinite(ranker.predict(frame)).all()
    with pytest.raises(ValueError, match="after epoch 1. Lower the learning rates"):
        ranker.fit(frame, callbacks=[Spoil(0)])
    with pytest.raises(ValueError, match="not fitted"):
        ranker.predict(frame)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.drop(columns="label"), "lacks the columns label:"),
        (lambda x: x.assign(label=0), "Of the 5 queries of `frame`, 0 have relevant"),
        (lambda x: x[x["query_id"] == "q0"], "Of the 1 queries of `frame`, 1 have"),
        (lambda x: x.assign(label=x["label"].where(x.index != 7)), "Row 7 .* is nan"),
        (lambda x: x.assign(label=x["label"] * 2 - 1), "`label` is -1, expected"),
        (lambda x: x.assign(query_id=None), "Row 0 .*: the query is missing"),
        (
            lambda x: x.assign(document=x["document"].where(x.index != 3)),
            "'document' of row 3 is nan, expected a text",
        ),
        (lambda x: x[:0], "Of the 0 queries"),
    ],
)
def test_frames_that_teach_nothing_are_refused(change, message, fitted):
    """And leave a fitted ranker as it is."""
    before = fitted.predict(made(2))
    with pytest.raises(ValueError, match=message):
        fitted.fit(change(made(5)))
    np.testing.assert_array_equal(fitted.predict(made(2)), before)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be"),
        ({"learning_rate": 0}, "`learning_rate` must be"),
        ({"validation_fraction": 1.0}, "`validation_fraction` must be"),
        ({"loss": "smooth_loss"}, "smoothi_loss"),
        ({"monitor": "ndgc_10"}, "ndgc_10"),
        ({"learning_rate_schedule": "cosine:1", "num_epochs": 1}, "warm-up must be"),
        ({"max_length": 6}, r"at least `query_tokens` \+ 4, which is 7"),
    ],
)
def test_settings_out_of_range_are_refused(given, message, encoder):
    with pytest.raises(ValueError, match=message):
        CrossEncoder(encoder, **{**QUICK, **given})


def test_more_tokens_than_positions_are_refused(encoder):
    with pytest.raises(ValueError, match="the encoder's 32 positions. Received: 33"):
        CrossEncoder(encoder, **{**QUICK, "max_length": 33}).fit(made(3))
    with pytest.raises(ValueError, match="not fitted"):
        CrossEncoder(encoder, **QUICK).rank("a", ["b"])


def test_lists_are_drawn_anew_each_epoch():
    """As a plain loop draws them, query by query."""
    rows = [np.arange(6 * i, 6 * i + 6) for i in range(5)]
    tokens = np.arange(60, dtype=np.int32).reshape(30, 2)
    labels = np.float32([1, 0, 2, 0, 0, 1] * 5)
    rng = np.random.default_rng(3)
    lists = drawn_lists.dataset(tokens, labels, rows, (2, 2), np.random.default_rng(3))
    for _ in range(2):
        found = [*lists.as_numpy_iterator()]
        assert len(found) == 5 == lists.cardinality()
        for (given, grades), query in zip(found, rng.permutation(5)):
            order = rng.permutation(rows[query])
            chosen = [x for x in order if labels[x] > 0][:2]
            chosen += [x for x in order if labels[x] == 0][:2]
            np.testing.assert_array_equal(given["tokens"], tokens[chosen])
            np.testing.assert_array_equal(grades, labels[chosen])


TWO_REPLICAS = """
import sys
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
from tests.estimators.test_cross_encoder import QUICK, made
from tfr_ext.text import CrossEncoder

given = {**QUICK, "num_epochs": 2, "batch_size": 7, "head_learning_rate": 1e-3}
one = CrossEncoder(sys.argv[1], **given).fit(made(30))
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    two = CrossEncoder(sys.argv[1], **given).fit(made(30))
for name, values in one.history_.items():
    np.testing.assert_allclose(two.history_[name], values, rtol=1e-4)
# But for the bias, whose gradient is 0, or for Adam noise.
found, expected = (x.predict(made(3)) for x in (two, one))
scale = np.abs(expected - expected.mean()).max()
np.testing.assert_allclose(
    found - found.mean(), expected - expected.mean(), atol=0.01 * scale
)
"""


@pytest.mark.grid
def test_two_replicas_train_as_one(encoder):
    """With batches of seven lists, which they do not share equally."""
    subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS, encoder], check=True, cwd=ROOT, timeout=300
    )
