"""Tables for tests: lists with weights and names, and their data frames."""

import dataclasses

import numpy as np
import pandas as pd

# Flags of a training on a small table.
SMALL = (
    *(
        "--model=mlp",
        "--hidden_sizes=4",
        "--num_epochs=2",
        "--batch_size=64",
        "--verbose=line",
    ),
    *("--loss=list_net_loss", "--nodraw_curves", "--metrics=ndcg_10"),
)


def tabular(lists, seed=0):
    """The lists with weights, and with names of three features."""
    weights = np.random.default_rng(seed).uniform(0, 4, lists.num_items)
    return dataclasses.replace(
        lists, weights=weights.astype(np.float32), feature_names=("x", "y", "z")
    )


def frame(lists):
    """The lists as a data frame."""
    columns = {
        "query": np.repeat(lists.query_ids, lists.lengths),
        **dict(zip(lists.feature_names, lists.features.T)),
        "label": lists.labels,
        "doc": lists.doc_ids,
        "weight": lists.weights,
    }
    return pd.DataFrame({name: x for name, x in columns.items() if x is not None})
