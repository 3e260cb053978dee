"""Metrics by name, and what they know of themselves."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import make_lists
from tfr_ext import evaluation, losses, metrics, objectives
from tfr_ext.objectives import registry


def test_every_module_of_a_metric_is_found():
    names = objectives.names()
    assert names == metrics.names() == sorted(names)
    defining = {objectives.of_name(name).__module__ for name in names}
    folder = pathlib.Path(objectives.__file__).parent
    for path in folder.glob("*.py"):
        registers = "\n@register\n" in path.read_text()
        assert registers == (f"tfr_ext.objectives.{path.stem}" in defining)
    for name in names:
        cls = objectives.of_name(name)
        assert getattr(objectives, cls.__name__) is cls
        assert tf.keras.utils.get_registered_object(f"tfr_ext>{cls.__name__}") is cls


def test_what_metrics_say_of_themselves():
    def having(attribute):
        return objectives.names(lambda cls: getattr(cls, attribute))

    assert having("is_cost") == ["arp"]
    assert having("IS_BINARY") == ["hits", "map", "mrr", "precision", "recall"]
    assert having("NO_LOSS") == ["dcg", "opa"]
    assert objectives.names(lambda cls: not cls.HAS_CUT_OFF) == ["opa"]
    assert objectives.names(lambda cls: cls.needs_max_label()) == ["err", "nerr"]
    assert objectives.names(lambda cls: cls.takes("gain")) == ["dcg", "ndcg"]
    assert objectives.loss_names("positions") == ["map", "ndcg", "precision", "recall"]
    assert objectives.loss_names("ranks") == [
        *("arp", "err", "hits", "map", "mrr", "ndcg", "nerr", "precision", "recall")
    ]


@pytest.mark.parametrize("name", objectives.names())
def test_a_configuration_builds_a_metric_again(name):
    cls = objectives.of_name(name)
    topn = 3 if cls.HAS_CUT_OFF else None
    metric = objectives.get(name, topn=topn, max_label=4, relevance_threshold=2)
    assert cls(**metric.get_config()) == metric
    assert metric.full_name == (name if topn is None else f"{name}_3")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("ndgc_10", "'ndcg_10'"), ("NDCG@10", "'ndcg_10'"), ("ndcg10", "'ndcg_10'")),
        *(("P@5", "'precision_5'"), ("MAP", "'map'"), ("precison", "'precision'")),
    ],
)
def test_misspelt_names_are_understood(name, meant):
    expected = f"Unknown metric {name!r}; did you mean {meant}"
    for measure in (objectives.parse, evaluation.higher_is_better):
        with pytest.raises(ValueError) as error:
            measure(name)
        assert str(error.value).startswith(expected)


def test_several_names_in_one_text_are_shown_as_several():
    with pytest.raises(
        ValueError, match=r"; give several names, as \('map', 'err'\)\."
    ):
        objectives.parse("map, err")
    for name in ("map, x", "x", "", "ndcg_", "3", 3, None, ["map"]):
        with pytest.raises(ValueError, match="Unknown metric") as error:
            objectives.parse(name)
        assert "give several" not in str(error.value)


@pytest.mark.parametrize("build", [metrics.RankingMetric, losses.SmoothILoss])
def test_a_name_with_its_cut_off_is_shown_as_two_arguments(build):
    for name, meant in {
        "ndcg_10": "`metric='ndcg', topn=10`",
        "NDCG": "'ndcg'",
        "ndgc": "'ndcg'",
    }.items():
        with pytest.raises(ValueError) as error:
            build(metric=name)
        assert f"Received: {name!r}; did you mean {meant}" in str(error.value)
    for name in (["ndcg"], None, 3, "zzz", "ndcg_0"):
        with pytest.raises(ValueError, match="`metric` must be one of .*") as error:
            build(metric=name)
        assert str(error.value).endswith(f"Received: {name!r}.")


def test_unknown_names_and_attributes_are_told():
    with pytest.raises(ValueError, match="Unknown metric 'ndcg_0'. Expected one of"):
        objectives.parse("ndcg_0")
    with pytest.raises(AttributeError, match="has no attribute 'BPref'"):
        objectives.BPref  # noqa: B018
    with pytest.raises(ValueError, match="'opa' has no cut-off"):
        objectives.OPA(5)
    with pytest.raises(ValueError, match="`gain` must be one of"):
        objectives.of_metric("ndcg", gain="power")


@pytest.mark.parametrize("name", objectives.loss_names("positions"))
@pytest.mark.parametrize("topn", [1, 4])
def test_at_exact_positions_it_is_the_exact_metric(name, topn):
    rng = np.random.default_rng(0)
    scores = tf.constant([rng.permutation(9.0 * np.arange(9))])
    labels = tf.constant([rng.integers(0, 3, 9).astype(float)])
    mask = tf.constant([[True] * 7 + [False] * 2])
    labels = tf.where(mask, labels, 0)
    objective = objectives.get(name, topn=topn, expected="gain")
    exact, empty = objective.per_list(labels, scores, mask)
    better = (scores[:, :, tf.newaxis] >= scores[:, tf.newaxis]) & mask[..., tf.newaxis]
    positions = tf.reduce_sum(tf.cast(better, tf.float64), axis=1)
    found = objective.at_positions(positions, labels, mask, slope=1e3)
    assert not empty[0] and exact[0] > 0
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_a_metric_of_ranks_alone_has_none_of_positions():
    x = tf.ones([1, 3])
    with pytest.raises(ValueError, match="MRR cannot use positions"):
        objectives.MRR().at_positions(x, x, x > 0)


def test_a_metric_that_is_registered_is_known_to_all():
    """Nothing but its module names a metric: here, the label at the first rank."""

    @dataclasses.dataclass(frozen=True)
    class First(objectives.Graded):
        NAME = "first"
        TITLE = "First"

        def _value(self, ranked, labels, mask):
            return ranked[:, 0]

    objectives.register(First)
    try:
        lists = make_lists([3, 2], labels=[0, 1, 2, 0, 1])
        scores = np.array([1.0, 3.0, 2.0, 1.0, 2.0])
        assert evaluation.parse_names(["first@2"]) == ["first_2"]
        found = evaluation.per_query(lists, scores, ["first"])
        np.testing.assert_array_equal(found["first"], [1, 1])
        metric = metrics.RankingMetric("first")
        assert float(metric([[0.0, 1.0, 2.0]], [[1.0, 2.0, 3.0]])) == 2.0
        assert registry.title("first_2") == "First@2"
        loss = losses.SmoothILoss(metric="first")
        assert losses.SmoothILoss.from_config(loss.get_config()).relaxed_metric()
    finally:
        del registry._METRICS["first"]
    with pytest.raises(ValueError, match="Unknown metric 'first'"):
        evaluation.parse_names(["first"])
