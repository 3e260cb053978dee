"""Labels as distributions over grades."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfr_ext.data.lists import RankingLists


def with_label_distributions(lists: RankingLists, num_grades: int) -> RankingLists:
    """Gives lists label distributions, where they have none: all mass on the grade.

    Args:
        lists: the lists.
        num_grades: number of grades.

    Returns:
        The lists, with distributions over so many grades.

    Raises:
        ValueError: if the lists have distributions over another number of grades, or
            none and a label that is not one of 0 to `num_grades - 1`.

    Examples:
        >>> lists = RankingLists(np.zeros([2, 1], np.float32), np.float32([2, 0]),
        ...                      np.int64([0, 2]), ["q"])
        >>> with_label_distributions(lists, 3).label_distributions
        array([[0., 0., 1.],
               [1., 0., 0.]], dtype=float32)
    """
    given = lists.label_distributions
    if given is not None:
        if given.shape[1] != num_grades:
            raise ValueError(
                f"There are {num_grades} grades, but the lists have distributions over "
                f"{given.shape[1]}."
            )
        return lists
    labels = lists.labels
    wrong = (labels != np.floor(labels)) | (labels >= num_grades)
    if wrong.any():
        raise ValueError(
            f"With {num_grades} grades, labels must be integers from 0 to "
            f"{num_grades - 1}. There is a label {labels[wrong][0]:g}. The number of "
            "grades comes from `grade_values` or `max_label`, if one is given."
        )
    one_hot = np.eye(num_grades, dtype=np.float32)[labels.astype(np.int64)]
    return dataclasses.replace(lists, label_distributions=one_hot)
