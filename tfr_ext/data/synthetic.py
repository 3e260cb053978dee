"""Synthetic lists of any size (Swezey et al., PiRank, NeurIPS 2021, Appendix E)."""

from __future__ import annotations

import numpy as np

from tfr_ext.core import checks
from tfr_ext.data.lists import RankingLists


def synthetic_lists(
    num_lists: int,
    list_size: int,
    num_document_features: int = 20,
    num_query_features: int = 5,
    min_label: float = 0.0,
    max_label: float = 4.0,
    integer_labels: bool = True,
    shared_columns: bool = False,
    seed: int = 0,
) -> RankingLists:
    """Draws queries whose labels are a linear function of a few document features.

    For each query: draw `list_size` documents with normal features; pick
    `num_query_features` of the columns without replacement, and a normal weight for
    each, which are the query's features; the label of a document is the weighted sum of
    its picked columns, capped between `min_label` and `max_label`; the query's features
    are appended to each document's. The data does not say which columns were picked: a
    ranker has to find out what the query features mean.

    Args:
        num_lists: number of queries (n in the paper).
        list_size: documents per query (L).
        num_document_features: width of the documents (m_d).
        num_query_features: picked columns (m_q), at most `num_document_features`.
        min_label: lowest label, not negative (l).
        max_label: highest label (h).
        integer_labels: whether labels are rounded to grades; the paper's are not.
        shared_columns: whether all queries have the same picked columns; in the paper
            they do not.
        seed: seed of all draws.

    Returns:
        Lists with `num_document_features + num_query_features` features.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> lists = synthetic_lists(num_lists=3, list_size=10)
        >>> lists.features.shape, lists.lengths.tolist()
        ((30, 25), [10, 10, 10])
    """
    checks.at_least("num_lists", num_lists, 1)
    checks.at_least("list_size", list_size, 1)
    if not 1 <= num_query_features <= num_document_features:
        raise ValueError(
            "`num_query_features` must be from 1 to `num_document_features`. "
            f"Received: {num_query_features} and {num_document_features}."
        )
    if not 0 <= min_label < max_label:
        raise ValueError(
            "Labels must satisfy 0 <= `min_label` < `max_label`. Received: "
            f"{min_label} and {max_label}."
        )
    rng = np.random.default_rng(seed)
    shared = rng.permutation(num_document_features)[:num_query_features]
    width = num_document_features + num_query_features
    features = np.empty([num_lists, list_size, width], np.float32)
    labels = np.empty([num_lists, list_size], np.float32)
    for q in range(num_lists):
        documents = rng.standard_normal([list_size, num_document_features], np.float32)
        columns = shared
        if not shared_columns:
            columns = rng.permutation(num_document_features)[:num_query_features]
        weights = rng.standard_normal(num_query_features, np.float32)
        features[q, :, :num_document_features] = documents
        features[q, :, num_document_features:] = weights
        labels[q] = np.clip(documents[:, columns] @ weights, min_label, max_label)
    if integer_labels:
        labels = np.rint(labels)
    return RankingLists(
        features=features.reshape([-1, width]),
        labels=labels.reshape([-1]),
        row_splits=np.arange(num_lists + 1) * list_size,
        query_ids=[str(q + 1) for q in range(num_lists)],
    )
