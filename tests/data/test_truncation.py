"""Lists cut to a size: which items stay, and what is counted."""

import numpy as np
import pytest

from tests.helpers import make_lists
from tfr_ext import data


def test_truncation_keeps_a_random_choice_in_order_and_counts():
    lists = make_lists([5, 2, 9], doc_ids=[f"d{i}" for i in range(16)])
    cut, count = data.truncate(lists, 3, seed=0)
    assert count == 2 and cut.lengths.tolist() == [3, 2, 3]
    positions = [int(name[1:]) for name in cut.doc_ids]
    assert positions == sorted(positions)
    np.testing.assert_array_equal(cut.labels, lists.labels[positions])
    np.testing.assert_array_equal(cut.features, lists.features[positions])
    assert positions[3:5] == [5, 6]
    chosen = {tuple(data.truncate(lists, 3, seed=s)[0].doc_ids) for s in range(20)}
    assert len(chosen) > 10
    assert data.truncate(lists, 9, seed=0) == (lists, 0)
    with pytest.raises(ValueError, match="list_size"):
        data.truncate(lists, 0, seed=0)


@pytest.mark.parametrize("feature", [1, 3])
def test_the_best_of_a_first_stage_stay_and_of_ties_the_first(feature):
    lists = make_lists([6, 2, 9, 4], doc_ids=[f"d{i}" for i in range(21)])
    lists.features[:] = np.round(lists.features)  # with ties
    cut, count = data.truncate(lists, 4, seed=0, first_stage_feature=feature)
    expected = []
    for start, end in ((0, 6), (6, 8), (8, 17), (17, 21)):
        ranked = sorted(
            range(start, end), key=lambda i: (-lists.features[i, feature - 1], i)
        )
        expected += sorted(ranked[:4])
    assert cut.doc_ids == [f"d{i}" for i in expected] and count == 2
    np.testing.assert_array_equal(cut.labels, lists.labels[expected])
    np.testing.assert_array_equal(cut.features, lists.features[expected])
    assert cut.lengths.tolist() == [4, 2, 4, 4]
    other, _ = data.truncate(lists, 4, seed=9, first_stage_feature=feature)
    assert other.doc_ids == cut.doc_ids


@pytest.mark.parametrize("feature", [0, 4])
def test_a_first_stage_that_is_not_there_is_told(feature):
    with pytest.raises(ValueError, match=f"from 1 to 3, .*Received: {feature}"):
        data.truncate(make_lists([5]), 2, 0, first_stage_feature=feature)
