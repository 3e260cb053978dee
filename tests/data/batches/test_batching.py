"""Batches: what is in them, their order, their padding; selection."""

import numpy as np
import pytest

from tests.helpers import make_lists
from tfr_ext import data


def items_of(features, labels):
    """The (features, label) pairs of the real items, list by list."""
    real = features["mask"]
    return [
        [(*x, y) for x, y in zip(row_x[row_m].tolist(), row_y[row_m].tolist())]
        for row_x, row_y, row_m in zip(features["float_features"], labels, real)
    ]


def whole(x):
    return {k: v.numpy() for k, v in x[0].items()}, x[1].numpy()


def test_evaluation_batches_are_the_lists_in_order():
    lists = make_lists([3, 1, 4, 2])
    seen = []
    for batch in data.BatchedLists(lists, 3).dataset():
        features, labels = whole(batch)
        assert (labels[~features["mask"]] == -1).all()
        assert not features["float_features"][~features["mask"]].any()
        assert features["mask"].any(axis=0).all()  # no column of padding only
        seen += items_of(features, labels)
    flat = [(*x, y) for x, y in zip(lists.features.tolist(), lists.labels.tolist())]
    assert [item for row in seen for item in row] == flat
    assert [len(row) for row in seen] == [3, 1, 4, 2]


@pytest.mark.parametrize("bucket", [True, False])
def test_each_epoch_has_every_list_once_in_a_new_order_by_seed(bucket):
    lists = make_lists(np.random.default_rng(0).integers(1, 30, 101))
    batched = data.BatchedLists(lists, 8, seed=5, bucket_by_length=bucket)
    again = data.BatchedLists(lists, 8, seed=5, bucket_by_length=bucket)
    other = data.BatchedLists(lists, 8, seed=6, bucket_by_length=bucket)
    orders = [np.concatenate(batched.order(e)).tolist() for e in range(3)]
    for epoch, order in enumerate(orders):
        assert sorted(order) == list(range(101))
        assert order == np.concatenate(again.order(epoch)).tolist()
        assert order != np.concatenate(other.order(epoch)).tolist()
    assert orders[0] != orders[1] != orders[2]
    assert {len(b) for b in batched.order(0)} == {8, 101 % 8}
    assert batched.num_batches == len(batched.order(0)) == 13


def test_the_dataset_goes_on_to_the_next_epoch():
    lists = make_lists([1] * 20)
    batched = data.BatchedLists(lists, 20, seed=1)
    dataset = batched.dataset()
    first, second = (next(iter(dataset))[1].numpy().ravel() for _ in range(2))
    np.testing.assert_array_equal(first, lists.labels[batched.order(0)[0]])
    np.testing.assert_array_equal(second, lists.labels[batched.order(1)[0]])
    batched.epoch = 0
    np.testing.assert_array_equal(next(iter(dataset))[1].numpy().ravel(), first)


def test_epochs_of_so_many_steps_walk_through_the_passes():
    lists = make_lists([2] * 10)
    batched = data.BatchedLists(lists, 4, seed=1)
    passes = [b for number in range(4) for b in batched.order(number)]
    dataset = batched.dataset(steps=4)
    assert dataset.cardinality() == 4
    seen = [labels.numpy() for _ in range(3) for _, labels in dataset]
    assert len(seen) == 12
    for chosen, labels in zip(passes, seen):
        expected = lists.labels.reshape([-1, 2])[chosen]
        np.testing.assert_array_equal(labels, expected)


def test_buckets_leave_little_padding():
    lengths = np.random.default_rng(0).geometric(0.05, 3000)
    lists = make_lists(lengths, num_features=1)
    bucketed = data.BatchedLists(lists, 32, seed=0).padding_waste()
    mixed = data.BatchedLists(lists, 32, seed=0, bucket_by_length=False)
    assert bucketed < 1.2 < 2 < mixed.padding_waste()


def test_select():
    lists = make_lists([3, 1, 2], doc_ids=list("abcdef"))
    part = lists.select([2, 0])
    assert part.query_ids == ["q2", "q0"] and part.doc_ids == list("efabc")
    np.testing.assert_array_equal(part.labels, lists.labels[[4, 5, 0, 1, 2]])
    assert lists.select([]).num_lists == 0


def test_inconsistent_lists_are_refused():
    good = make_lists([2, 1])
    parts = {
        "features": good.features,
        "labels": good.labels,
        "row_splits": good.row_splits,
        "query_ids": good.query_ids,
        "doc_ids": None,
    }
    for name, value in (
        ("features", good.features[:2]),
        ("row_splits", np.array([0, 2])),
        ("query_ids", ["q"]),
        ("doc_ids", ["d"]),
    ):
        with pytest.raises(ValueError, match=name):
            data.RankingLists(**{**parts, name: value})


def test_batch_size_is_checked():
    with pytest.raises(ValueError, match="batch_size"):
        data.BatchedLists(make_lists([1]), 0)


def test_synthetic_lists_follow_appendix_e():
    lists = data.synthetic_lists(
        50, 7, 6, 2, min_label=0.5, max_label=3.0, integer_labels=False, seed=1
    )
    assert lists.features.shape == (350, 8) and set(lists.lengths) == {7}
    columns = set()
    for q in range(50):
        x = lists.features[q * 7 : q * 7 + 7].astype(np.float64)
        weights = x[0, 6:]
        assert (x[:, 6:] == weights).all()
        # Some two columns give the capped labels; which, changes with the query.
        found = [
            (i, j)
            for i in range(6)
            for j in range(6)
            if i != j
            and np.allclose(
                np.clip(x[:, [i, j]] @ weights, 0.5, 3.0),
                lists.labels[q * 7 : q * 7 + 7],
                atol=1e-5,
            )
        ]
        assert found
        columns.add(found[0])
    assert len(columns) > 10


def test_synthetic_lists_by_seed_and_with_shared_columns():
    one, same = (data.synthetic_lists(4, 5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.features, same.features)
    other = data.synthetic_lists(4, 5, seed=4)
    assert (one.features != other.features).any()
    assert set(one.labels) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    shared = data.synthetic_lists(
        30, 20, 4, 1, integer_labels=False, shared_columns=True
    )
    x, weight = shared.features[:, :4], shared.features[:, 4:]
    errors = np.abs(np.clip(x * weight, 0, 4) - shared.labels[:, np.newaxis]).max(
        axis=0
    )
    assert sorted(errors)[0] < 1e-5 < sorted(errors)[1]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"num_lists": 0}, "num_lists"),
        ({"list_size": 0}, "list_size"),
        ({"num_query_features": 21}, "num_query_features"),
        ({"min_label": -1.0}, "min_label"),
        ({"max_label": 0.0}, "max_label"),
    ],
)
def test_synthetic_arguments_are_checked(arguments, name):
    with pytest.raises(ValueError, match=name):
        data.synthetic_lists(**{"num_lists": 2, "list_size": 2, **arguments})
