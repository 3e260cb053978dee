"""scikit-learn's own checks of an estimator, those that apply to rankers."""

import numpy as np
import pytest

import tfr_ext

estimator_checks = pytest.importorskip("sklearn.utils.estimator_checks")

# They want what a ranker of lists is not, or does otherwise.
NOT_FOR_RANKERS = {
    "check_fit2d_1sample": "one row is no two queries, one of them to validate on",
    "check_sample_weight_equivalence_on_dense_data": "batches are drawn from lists",
    "check_sample_weight_equivalence_on_sparse_data": "batches are drawn from lists",
    "check_dtype_object": "a feature that is no number is a ValueError here",
}


def in_threes(X):
    """Numbers of rows of queries of three rows, where none are given."""
    rows = np.asarray(X).shape[0] if not hasattr(X, "shape") else X.shape[0]
    return [3] * (rows // 3) + [rows % 3] * (rows % 3 > 0)


class InLists(tfr_ext.Ranker):
    """A ranker of queries of three rows each."""

    def __init__(self, hidden_sizes=(), num_epochs=1, random_state=1):
        super().__init__(
            model="mlp",  # scores rows by themselves
            hidden_sizes=hidden_sizes,
            num_epochs=num_epochs,
            random_state=random_state,
            batch_normalization=False,
        )

    def fit(self, X, y, sample_weight=None):
        """Fits to lists of three rows."""
        group = None if y is None else in_threes(X)
        return super().fit(X, y, group=group, sample_weight=sample_weight)

    def score(self, X, y):
        """Scores lists of three rows."""
        return super().score(X, y, group=in_threes(X))


@pytest.mark.grid
@estimator_checks.parametrize_with_checks(
    [InLists()], expected_failed_checks=lambda estimator: NOT_FOR_RANKERS
)
def test_scikit_learn_takes_it_for_an_estimator(estimator, check):
    check(estimator)


def test_its_parameters_are_those_of_its_signature():
    ranker = tfr_ext.Ranker(loss="softmax_loss")
    params = ranker.get_params()
    assert params["loss"] == "softmax_loss"
    assert ranker.set_params(dropout=0.5).dropout == 0.5
    with pytest.raises(ValueError, match="Invalid parameter"):
        ranker.set_params(depth=3)
    with pytest.raises(ValueError, match="not fitted"):
        ranker.predict(np.zeros([2, 2]))
