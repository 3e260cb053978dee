"""Each field of a convention has an effect wherever it goes, or is refused."""

import dataclasses

import numpy as np
import pytest

from tests.helpers import make_lists
from tfr_ext import evaluation
from tfr_ext.data.batches import batching
from tfr_ext.evaluation import Convention, fusion, significance
from tfr_ext.scoring.evaluator import evaluate_scores

# A value other than the default, and a metric that it changes.
OTHERS = {
    "gain": ("linear", "ndcg"),
    "empty_list": ("one", "map"),
    "relevance_threshold": (2.0, "map"),
    "max_label": (4.0, "err_10"),
    "ties": (evaluation.TIES_BY_NAME, "mrr"),
}
LISTS = dataclasses.replace(
    make_lists([3, 2, 4], labels=[0, 1, 2, 0, 0, 2, 1, 0, 0]),
    doc_ids=list("cab") + list("ab") + list("abcd"),
)
SCORES = np.float64([1, 1, 0, 2, 2, 0, 0, 0, 3])


def by_batch(name, convention):
    metric = convention.keras_metric(name)
    where, mask = batching.padded_positions(LISTS, np.arange(LISTS.num_lists))
    metric.update_state(np.where(mask, LISTS.labels[where], -1), SCORES[where])
    return metric.result().numpy()


PLACES = {
    "per_query": lambda name, convention: evaluation.means(
        evaluation.per_query(LISTS, SCORES, [name], convention)
    )[name],
    "evaluate_scores": lambda name, convention: evaluate_scores(
        LISTS, SCORES, [name], convention
    ).metrics[name],
    "choose_weights": lambda name, convention: (
        evaluation.choose_weights([SCORES], LISTS, name, convention).value
    ),
    "keras_metric": by_batch,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("field", [one.name for one in dataclasses.fields(Convention)])
def test_a_field_has_an_effect_or_is_refused(place, field):
    base = Convention(max_label=2.0)
    value, metric = OTHERS[field]
    other = dataclasses.replace(base, **{field: value})
    before = PLACES[place](metric, base)
    try:
        after = PLACES[place](metric, other)
    except ValueError as error:
        assert f"`{field}`" in str(error) and (place, field) == ("keras_metric", "ties")
    else:
        assert abs(after - before) > 1e-3


@pytest.mark.parametrize("field", ["gain", "empty_list", "ties"])
def test_words_that_mean_nothing_are_refused(field):
    with pytest.raises(ValueError, match=f"`{field}` must be one of .*: 'by age'"):
        Convention(**{field: "by age"})


def test_names_break_ties_as_in_a_run():
    """Of random runs with ties, and with documents that are missing or not judged."""
    rng = np.random.default_rng(0)
    names, changed = list(evaluation.DEFAULT_METRICS), 0
    by_name = Convention(max_label=4, ties=evaluation.TIES_BY_NAME)
    by_position = Convention(max_label=4)
    for _ in range(20):
        lengths = rng.integers(1, 12, 8)
        lists = make_lists(lengths, labels=rng.integers(0, 5, lengths.sum()))
        documents = [str(x) for x in rng.integers(0, 9, lists.num_items)]  # Repeated.
        lists = dataclasses.replace(lists, doc_ids=documents)
        own = iter(evaluation.document_names(lists))
        run = evaluation.TrecRun(
            {
                query: {
                    name: float(rng.integers(0, 3))
                    for name in [*(next(own) for _ in range(length)), "x", "5x"]
                    if rng.uniform() < 0.8
                }
                for query, length in zip(lists.query_ids, lengths)
            },
            "tag",
        )
        joined, (scores,) = evaluation.with_runs(lists, [run])
        found = evaluation.per_query(joined, scores, names, by_name)
        expected = evaluation.per_query(*run.ranked(lists), names, by_position)
        for name in names:
            np.testing.assert_array_equal(found[name], expected[name], name)
        changed += (
            found["ndcg"]
            != evaluation.per_query(joined, scores, ["ndcg"], by_position)["ndcg"]
        ).sum()
    assert changed > 40


def test_lists_without_names_have_no_ties_by_name():
    with pytest.raises(ValueError, match="`ties='by document name'` needs lists with"):
        evaluation.per_query(
            dataclasses.replace(LISTS, doc_ids=None),
            SCORES,
            ["map"],
            Convention(ties=evaluation.TIES_BY_NAME),
        )


def test_what_a_mask_hides_is_not_used():
    hidden = np.ma.array([1.0, 2, 3], mask=[False, True, False])
    lists = make_lists([3])
    for use in (
        lambda: evaluation.per_query(lists, hidden, ["mrr"]),
        lambda: fusion.contributions(hidden, [0, 3], "rank"),
        lambda: significance.differences(hidden, [1, 2, 3]),
    ):
        with pytest.raises(ValueError, match="must be finite"):
            use()
