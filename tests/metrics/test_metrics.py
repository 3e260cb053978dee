"""Metrics against hand-computed values, TFR's, trec_eval's, and each other."""

import math

import numpy as np
import pytest
import pytrec_eval
import tensorflow as tf
from scipy import stats

from tests import oracles
from tests.helpers import make_lists, tfr
from tfr_ext import evaluation, losses, metrics, objectives
from tfr_ext.evaluation import queries
from tfr_ext.evaluation.comparable import Options

TIED = make_lists([5, 1, 8, 3, 12], seed=4)
SCORES = np.random.default_rng(4).integers(0, 4, TIED.num_items).astype(np.float32)


def oracle(name, convention):
    arguments = convention.metric_arguments(name)
    metric = arguments.pop("metric")
    values = []
    for q in range(TIED.num_lists):
        items = slice(TIED.row_splits[q], TIED.row_splits[q + 1])
        labels = [float(y) for y in TIED.labels[items]]
        rows = oracles.exact_indicators(list(SCORES[items]), len(labels))
        value = oracles.metric(metric, rows, labels, **arguments)
        empty = {"zero": 0.0, "one": 1.0, "skip": math.nan}[convention.empty_list]
        values.append(empty if value is None else value)
    return values


@pytest.mark.first_case("empty_list")
@pytest.mark.parametrize("gain", ["exponential", "linear"])
@pytest.mark.parametrize("empty_list", ["zero", "one", "skip"])
@pytest.mark.parametrize("threshold", [1.0, 3.0])
def test_per_query_and_keras_metrics_equal_the_oracle(gain, empty_list, threshold):
    convention = evaluation.Convention(gain, empty_list, threshold, max_label=3.0)
    names = [
        *(*evaluation.DEFAULT_METRICS, "arp_3", "map_2", "mrr_3", "err"),
        *("nerr", "nerr_3", "opa", "recall", "recall_3", "hits", "hits_2"),
        *("dcg", "dcg_4"),
    ]
    values = evaluation.per_query(TIED, SCORES, names, convention)
    means = evaluation.means(values)
    for name in names:
        expected = oracle(name, convention)
        np.testing.assert_allclose(values[name], expected, rtol=1e-12, err_msg=name)
        metric = convention.keras_metric(name)
        for q in range(TIED.num_lists):  # a batch a list, padded
            items = slice(TIED.row_splits[q], TIED.row_splits[q + 1])
            metric.update_state([[*TIED.labels[items], -1.0]], [[*SCORES[items], 99.0]])
        np.testing.assert_allclose(metric.result(), np.nanmean(expected), rtol=1e-5)
        np.testing.assert_allclose(means[name], np.nanmean(expected), rtol=1e-12)


def test_err_by_hand():
    # Grades 1, 0, 2 of at most 2 down the ranking: stops 1/4, 0, 3/4.
    metric = metrics.ERRMetric(max_label=2)
    metric.update_state([[0.0, 1.0, 2.0]], [[2.0, 3.0, 1.0]])
    np.testing.assert_allclose(metric.result(), 1 / 4 + (3 / 4) * (3 / 4) / 3)


def test_metrics_without_ties_equal_tfr():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, [10, 7]).astype(np.float32)
    labels[rng.uniform(size=[10, 7]) < 0.2] = -1
    labels[:, 0] = 2.0  # no empty list: its rule differs
    scores = rng.permutation(70).reshape([10, 7]).astype(np.float32)
    pairs = [
        (metrics.RankingMetric("ndcg", 3), tfr.keras.metrics.NDCGMetric(topn=3)),
        (metrics.RankingMetric("ndcg"), tfr.keras.metrics.NDCGMetric()),
        (metrics.RankingMetric("dcg", 4), tfr.keras.metrics.DCGMetric(topn=4)),
        (metrics.RankingMetric("recall", 3), tfr.keras.metrics.RecallMetric(topn=3)),
        (metrics.RankingMetric("hits", 2), tfr.keras.metrics.HitsMetric(topn=2)),
        (metrics.RankingMetric("mrr"), tfr.keras.metrics.MRRMetric()),
        (metrics.RankingMetric("map"), tfr.keras.metrics.MeanAveragePrecisionMetric()),
    ]
    for ours, theirs in pairs:
        if ours.name.split("_")[0] in ("ndcg", "dcg", "map", "recall"):
            # TFR weighs lists by their labels there: compare list by list.
            for y, s in zip(labels, scores):
                ours.reset_state()
                theirs.reset_state()
                np.testing.assert_allclose(ours([y], [s]), theirs([y], [s]), rtol=1e-5)
        else:
            np.testing.assert_allclose(
                ours(labels, scores), theirs(labels, scores), rtol=1e-5
            )


def test_opa_without_ties_equals_tfr_and_with_ties_goes_by_position():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, [20, 9]).astype(np.float32)
    labels[rng.uniform(size=labels.shape) < 0.2] = -1
    labels[0] = 1.0  # no two labels differ
    scores = rng.permutation(180).reshape([20, 9]).astype(np.float32)
    ours, theirs = metrics.RankingMetric("opa"), tfr.keras.metrics.OPAMetric()
    for y, s in zip(labels, scores):  # TFR weighs lists by their pairs
        ours.reset_state()
        theirs.reset_state()
        np.testing.assert_allclose(ours([y], [s]), theirs([y], [s]), rtol=1e-6)
    both = [[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]
    tied = metrics.RankingMetric("opa")
    np.testing.assert_allclose(tied(both, np.zeros([2, 3])), (0 + 1) / 2)
    theirs.reset_state()
    assert float(theirs(both, np.zeros([2, 3]))) == 0


def test_opa_of_a_list_too_long_for_one_block():
    rng = np.random.default_rng(5)
    labels, scores = rng.integers(0, 4, 2000), rng.normal(size=2000)
    lists = make_lists([2000, 3], labels=[*labels, 0, 0, 1])
    found = evaluation.per_query(lists, np.array([*scores, 3.0, 2.0, 2.5]), ["opa"])[
        "opa"
    ]
    tau_b = stats.kendalltau(labels, scores).statistic
    pairs, unlike = 2000 * 1999 / 2, (labels[:, None] > labels).sum()
    expected = (tau_b * np.sqrt(pairs * unlike) / unlike + 1) / 2
    np.testing.assert_allclose(found, [expected, 0.5], rtol=1e-12)


def test_what_a_run_lacks_stands_last_and_the_least_relevant_first():
    lists = make_lists([4, 2], labels=[2, 1, 0, 1, 1, 0])
    scores = np.array([-np.inf, 3.0, 2.0, -np.inf, -np.inf, -np.inf])
    found = evaluation.per_query(lists, scores, ["opa", "arp", "mrr", "map", "ndcg"])
    # Down the ranking: 1, 0, then 1 and 2, not retrieved; and 0, 1.
    np.testing.assert_allclose(found["opa"], [1 / 5, 0])
    np.testing.assert_allclose(found["arp"], [(1 * 1 + 3 * 1 + 4 * 2) / 4, 2])
    np.testing.assert_allclose(found["mrr"], [1, 0])
    np.testing.assert_allclose(found["map"], [1 / 3, 0])
    assert 0 < found["ndcg"][0] < 1 and found["ndcg"][1] == 0


@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_run_file_by_the_rules_of_trec_eval(tmp_path, gain):
    """Ties, repeated document names, lists of one and empty lists included."""
    convention = evaluation.Convention(gain=gain)
    names = [n for n in evaluation.DEFAULT_METRICS if not n.startswith(("err", "arp"))]
    doc_ids = [f"z{i % 3}" for i in range(TIED.num_items)]
    lists = make_lists([5, 1, 8, 3, 12], seed=4, doc_ids=doc_ids)
    assert np.array_equal(lists.labels, TIED.labels)
    values = evaluation.per_query(lists, SCORES, names, convention)
    run_path, qrels_path = str(tmp_path / "run"), str(tmp_path / "qrels")
    evaluation.write_run(run_path, lists, SCORES, "tag")
    assert evaluation.write_qrels(qrels_path, lists)
    with open(run_path) as file:
        run = pytrec_eval.parse_run(file)
    with open(qrels_path) as file:
        qrels = pytrec_eval.parse_qrel(file)
    theirs = {n: n.replace("precision", "P") for n in names}
    theirs.update({"mrr": "recip_rank"})
    theirs.update({f"ndcg_{k}": f"ndcg_cut_{k}" for k in (1, 5, 10)})
    evaluated = pytrec_eval.RelevanceEvaluator(qrels, set(theirs.values())).evaluate(
        run
    )
    gained = evaluated
    if gain == "exponential":  # trec_eval's gain is the grade: give it the gains
        gains = {q: {d: 2**g - 1 for d, g in docs.items()} for q, docs in qrels.items()}
        gained = pytrec_eval.RelevanceEvaluator(gains, set(theirs.values())).evaluate(
            run
        )
    for name in names:
        source = gained if name.startswith("ndcg") else evaluated
        expected = [source[q].get(theirs[name], 0.0) for q in lists.query_ids]
        np.testing.assert_allclose(values[name], expected, atol=1e-7, err_msg=name)


def test_run_file_keeps_scores_that_do_not_tie_exactly(tmp_path):
    lists = make_lists([4])
    scores = np.float32([0.1, 1e-42, -np.finfo(np.float32).max, 1 / 3])
    path = tmp_path / "run"
    evaluation.write_run(str(path), lists, scores, "tag")
    written = evaluation.read_run(str(path), lists).documents["q0"]
    assert [written[f"q0-{i + 1}"] for i in range(4)] == list(scores)


def test_run_file_keeps_the_order_of_finer_scores_and_lacks_what_is_not_retrieved(
    tmp_path,
):
    lists = make_lists([4, 1])
    scores = np.array([1.0, 1.0 + 2e-9, -np.inf, 1.0 + 1e-9, -np.inf])
    evaluation.write_run(str(tmp_path / "run"), lists, scores, "tag")
    run = evaluation.read_run(str(tmp_path / "run"), lists)
    assert run.tag == "tag" and run.missing(lists) == ["q1"]
    _, ranks = run.ranked(lists)
    assert list(ranks) == [-3, -1, -np.inf, -2, -np.inf]


def test_qrels_are_for_integer_grades_only(tmp_path):
    path = tmp_path / "qrels"
    path.write_text("those of an earlier run")
    assert not evaluation.write_qrels(str(path), make_lists([2], labels=[0.5, 1.0]))
    assert not path.exists()


def test_sample_weights_and_padding_rows_in_keras_metrics():
    metric = metrics.RankingMetric("precision", topn=1)
    labels = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]
    metric.update_state(labels, [[2.0, 1.0]] * 3, sample_weight=[3.0, 1.0, 7.0])
    np.testing.assert_allclose(metric.result(), 0.75)


def test_keras_metrics_in_fit_and_config(tmp_path):
    inputs = tf.keras.Input([4])
    model = tf.keras.Model(inputs, inputs)
    model.compile(
        loss=tfr.keras.losses.SoftmaxLoss(),
        metrics=[
            metrics.ERRMetric(topn=2, max_label=3.0, name="err"),
            metrics.RankingMetric("ndcg", gain="linear", empty_list="skip"),
        ],
    )
    x = tf.random.stateless_normal([6, 4], [1, 2])
    y = tf.constant(np.random.default_rng(0).integers(-1, 4, [6, 4]), tf.float32)
    before = model.evaluate(x, y, verbose=0, return_dict=True)
    model.save(str(tmp_path / "model.keras"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.keras"))
    after = loaded.evaluate(x, y, verbose=0, return_dict=True)
    assert before == after and 0 < after["err"] < 1 and 0 < after["ndcg"] <= 1


@pytest.mark.parametrize("spelling", ["{}_3", "{}@3", " {}@3 "])
@pytest.mark.parametrize("metric", sorted({*objectives.names()} - {"opa"}))
def test_a_cut_off_is_spelled_as_one_likes(metric, spelling):
    """By everything that takes the name of a metric; what returns it has the plain."""
    name, plain = spelling.format(metric), f"{metric}_3"
    lists = make_lists([5, 3, 4])
    scores = lists.features[:, 0]
    convention = evaluation.Convention(max_label=3.0)
    assert objectives.parse(name) == (metric, 3)
    assert objectives.title(name) == objectives.title(plain)
    assert evaluation.parse_names([name, plain]) == [plain]
    assert queries.binary_names([name]) == queries.binary_names([plain])
    assert queries.need_max_label([name]) == queries.need_max_label([plain])
    for ask in (
        evaluation.higher_is_better,
        convention.metric_arguments,
        convention.objective,
        lambda one: convention.keras_metric(one).get_config(),
        lambda one: evaluation.choose_weights([scores], lists, one, convention),
    ):
        assert ask(name) == ask(plain)
    assert Options(plot_metric=name).plot_metric == plain
    (found,) = evaluation.per_query(lists, scores, [name], convention).items()
    (expected,) = evaluation.per_query(lists, scores, [plain], convention).items()
    assert found[0] == expected[0] == plain
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndgc_10", "ndgc_10"),
        ("ndcg_0", "ndcg_0"),
        ("", "''"),
        ("opa_10", "'opa' has no cut-off.*Received: topn=10"),
    ],
)
def test_unknown_metric_names_are_told(name, message):
    with pytest.raises(ValueError, match=message):
        evaluation.parse_names([name])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="empty_list"):
        metrics.RankingMetric("ndcg", empty_list="two")
    with pytest.raises(ValueError, match="max_label"):
        metrics.ERRMetric()
    with pytest.raises(ValueError, match="'nerr' needs `max_label`"):
        metrics.RankingMetric("nerr")
    for loss in (losses.SmoothILoss, losses.SoftSortLoss):
        with pytest.raises(
            ValueError, match="`metric` must be one of.*Received: 'opa'"
        ):
            loss(metric="opa")
    with pytest.raises(ValueError, match="one per item"):
        evaluation.per_query(TIED, SCORES[1:], ["map"])
    with pytest.raises(ValueError, match="finite.*item 3"):
        evaluation.per_query(TIED, np.where(np.arange(29) == 3, np.nan, 0.0), ["map"])


def test_a_label_above_max_label_is_told():
    for name in ("err_5", "nerr"):
        with pytest.raises(ValueError, match="highest label, 3.*Received: 2"):
            evaluation.per_query(
                TIED, SCORES, [name], evaluation.Convention(max_label=2)
            )


def test_document_names_are_unique_in_a_list():
    lists = make_lists([4, 1], doc_ids=["a", "a", "a#2", "b c", "a"])
    assert evaluation.document_names(lists) == ["a", "a#2", "a#2#2", "b%20c", "a"]


def test_a_whole_evaluation_without_any_relevant_item_has_no_mean():
    lists = make_lists([2, 3], labels=[0] * 5)
    skip = evaluation.Convention(empty_list="skip")
    values = evaluation.per_query(lists, np.zeros(5), ["map"], skip)
    assert evaluation.means(values) == {"map": None}


def test_batches_of_no_items_count_for_nothing():
    convention = evaluation.Convention(max_label=3.0)
    for name in (*evaluation.DEFAULT_METRICS, "arp", "nerr", "opa", "recall", "hits"):
        metric = convention.keras_metric(name)
        metric.update_state([[1.0, 0.0, 2.0]], [[3.0, 2.0, 1.0]])
        before = metric.result().numpy()
        for shape in ([2, 0], [0, 3], [0, 0]):
            metric.update_state(tf.zeros(shape), tf.zeros(shape))
        assert metric.result().numpy() == before != 0, name
