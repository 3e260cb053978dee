"""Text that is read, and what is read from it."""

import numpy as np

GOOD = b"""2 qid:10 1:0.5 2:0 3:-1.25 #docid = GX-1 inc = 1 prob = 0.1
0 qid:10 1:1 2:2 3:3 #docid = GX-2 inc = 1 prob = 0.2
1 qid:11 1:0.1 2:0.2 3:0.3 #docid = GX-3 inc = 1 prob = 0.3
"""
GOOD_FEATURES = np.float32([[0.5, 0, -1.25], [1, 2, 3], [0.1, 0.2, 0.3]])


def assert_good(lists, doc_ids=("GX-1", "GX-2", "GX-3")):
    np.testing.assert_array_equal(lists.features, GOOD_FEATURES)
    assert lists.features.dtype == np.float32
    assert lists.labels.tolist() == [2, 0, 1]
    assert lists.labels.dtype == np.float32
    assert lists.row_splits.tolist() == [0, 2, 3]
    assert lists.row_splits.dtype == np.int64
    assert lists.query_ids == ["10", "11"]
    assert lists.doc_ids == (None if doc_ids is None else list(doc_ids))
