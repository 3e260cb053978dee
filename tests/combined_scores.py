"""What SciPy makes of the scores of several models."""

import numpy as np
from scipy import stats

OF_A_LIST = {
    "mean": lambda scores: scores,
    "zscore": lambda scores: np.nan_to_num(stats.zscore(scores)),
    "rank": lambda scores: -stats.rankdata(-scores),
}


def by_scipy(combination, several, lists):
    """The mean over score arrays `[num_items]` of what SciPy makes of each list."""
    found = [
        np.concatenate(
            [
                OF_A_LIST[combination](scores[start:end].astype(float))
                for start, end in zip(lists.row_splits, lists.row_splits[1:])
            ]
        )
        for scores in several
    ]
    return np.mean(found, axis=0)
