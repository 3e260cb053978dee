"""The interface of an objective that LightGBM calls with whole lists."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np


class Objective(abc.ABC):
    """Base of objectives for LightGBM, which see the lists and not only the items.

    An objective is called as LightGBM calls a custom one, with the scores and the
    training data, whose `group` gives the lists:

    ```python
    params = {"objective": PointwiseKLBinomialObjective(max_label=2.0)}
    lightgbm.train(params, lightgbm.Dataset(X, y, group=[10, 12, 9]))
    ```

    LightGBM adds `-sum(gradient) / (sum(hessian) + lambda_l2)` over the items of a leaf
    to their scores, times the learning rate, and makes no leaf whose Hessians sum to
    less than `min_sum_hessian_in_leaf` (0.001 by default). The Hessians must therefore
    be positive, and their scale matters to these two parameters alone.
    """

    def __call__(self, scores: np.ndarray, dataset: Any) -> tuple[np.ndarray, ...]:
        """Returns gradients and Hessians, as LightGBM wants them.

        Args:
            scores: the present scores, `[num_items]`.
            dataset: a `lightgbm.Dataset` with labels and groups.

        Raises:
            ValueError: If the data has no groups.
        """
        group = dataset.get_group()
        if group is None:
            raise ValueError(
                "The lightgbm.Dataset must have `group`: the number of items of each "
                "list."
            )
        return self.derivatives(
            np.asarray(scores, np.float64),
            np.asarray(dataset.get_label(), np.float64),
            np.concatenate([[0], np.cumsum(group)]).astype(np.int64),
            dataset.get_weight(),
        )

    @abc.abstractmethod
    def derivatives(
        self,
        scores: np.ndarray,
        labels: np.ndarray,
        row_splits: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the gradient of the loss, and positive Hessians.

        Args:
            scores: the scores, `[num_items]`.
            labels: the labels, `[num_items]`.
            row_splits: items `row_splits[q]:row_splits[q + 1]` are list `q`.
            weights: a weight for each item, or None.

        Returns:
            Two float64 arrays `[num_items]`; the second is above 0 throughout.
        """
