"""Cutting sorted lists into batches: against all ways to cut them."""

import itertools

import numpy as np
import pytest

from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.data.batches import buckets


def padded(lengths, ends):
    starts = [0, *ends[:-1]]
    return sum((e - s) * max(lengths[s:e]) for s, e in zip(starts, ends))


def all_cuts(count, max_lists):
    """All ways to cut so many lists into batches, with few batches first."""
    for number in range(1, count + 1):
        for inner in itertools.combinations(range(1, count), number - 1):
            ends = [*inner, count]
            if all(e - s <= max_lists for s, e in zip([0, *ends], ends)):
                yield ends


@pytest.mark.parametrize("seed", range(12))
def test_cuts_are_the_fewest_and_of_those_the_tightest(seed):
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.geometric(0.15, rng.integers(1, 10)))
    max_lists = int(rng.integers(1, 6))
    every = [(len(c), padded(lengths, c)) for c in all_cuts(len(lengths), max_lists)]
    fewest = min(count for count, _ in every)
    full = buckets.cut_by_padding(lengths, max_lists)
    assert len(full) == fewest
    assert np.diff([0, *full]).tolist()[:-1] == [max_lists] * (fewest - 1)
    for limit in (1.0, 1.1, 1.25, 1.6):
        most = limit * lengths.sum()
        ends = buckets.cut_by_padding(lengths, max_lists, limit)
        needed = min(count for count, cells in every if cells <= most)
        assert len(ends) == needed and padded(lengths, ends) <= most
        assert max(np.diff([0, *ends])) <= max_lists
    for count in range(fewest + 1, len(lengths) + 1):
        ends = buckets.cut_by_padding(lengths, max_lists, None, count)
        assert len(ends) == count
        assert padded(lengths, ends) == min(c for n, c in every if n == count)


def test_batches_keep_within_the_padding_that_is_allowed():
    """Long-tailed lists of which full batches would be mostly padding."""
    lengths = np.random.default_rng(1).geometric(0.02, 150)
    lists = make_lists(lengths, num_features=1)
    full = data.BatchedLists(lists, 64, seed=3, max_padding=None)
    assert full.num_batches == 3 and full.padding_waste() > 1.4
    for limit in (1.25, 1.05):
        batched = data.BatchedLists(lists, 64, seed=3, max_padding=limit)
        for epoch in range(3):
            order = batched.order(epoch)
            assert sorted(np.concatenate(order)) == list(range(150))
            assert max(map(len, order)) <= 64
            assert batched.padding_waste(epoch) <= limit
        cells = sum(
            f["mask"].shape[0] * f["mask"].shape[1] for f, _ in batched.dataset()
        )
        assert cells == pytest.approx(batched.padding_waste() * lists.num_items)
    with pytest.raises(ValueError, match="max_padding"):
        data.BatchedLists(lists, 64, max_padding=0.9)


def test_as_many_batches_as_full_ones_may_need_less_padding():
    lists = make_lists([10, 12, 11, 90, 91, 92, 93, 94, 95], num_features=1)
    full = data.BatchedLists(lists, 6, seed=0, max_padding=None)
    batched = data.BatchedLists(lists, 6, seed=0, max_padding=1.25)
    assert batched.num_batches == full.num_batches == 2
    assert full.padding_waste() > 1.25 > batched.padding_waste(0)
    assert batched.padding_waste(0) == batched.padding_waste(1)


def test_every_epoch_has_as_many_batches_as_the_first(monkeypatch):
    """Also where an epoch has several runs, which hold other lists each time."""
    monkeypatch.setattr("tfr_ext.data.batches.batching._BUCKET_BATCHES", 2)
    lists = make_lists(np.random.default_rng(2).geometric(0.03, 90), num_features=1)
    batched = data.BatchedLists(lists, 16, seed=0, max_padding=1.05)
    assert batched.num_batches > -(-90 // 16)
    for epoch in range(5):
        order = batched.order(epoch)
        assert len(order) == batched.num_batches
        assert sorted(np.concatenate(order)) == list(range(90))
    again = data.BatchedLists(lists, 16, seed=0, max_padding=1.05)
    assert [b.tolist() for b in again.order(4)] == [b.tolist() for b in order]


def test_scores_are_those_of_the_items_whatever_the_batches():
    lists = make_lists([3, 1, 40, 2, 7, 5], num_features=2)
    sizes = []

    def score(features):
        sizes.append(features["mask"].shape)
        return features["float_features"].sum(axis=-1)

    scores = data.score_lists(score, lists, batch_size=4)
    np.testing.assert_allclose(scores, lists.features.sum(axis=1), rtol=1e-6)
    assert sum(rows for rows, _ in sizes) == 6 and (1, 40) in sizes
