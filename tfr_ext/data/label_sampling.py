"""Labels drawn anew, as if other judges had given them."""

from __future__ import annotations

import dataclasses

import numpy as np

# Apart from the other numbers that the same seed draws, such as an epoch's order.
_STREAM = 0x1ABE1


@dataclasses.dataclass(frozen=True)
class BinomialLabels:
    """Replaces each label by the mean of binomial draws around it.

    A label `y` becomes `max_label * Binomial(num_trials, y / max_label) / num_trials`:
    it keeps its mean, the lowest and the highest grade stay, and those between vary
    the more the less certain they are (Purpura, Silvello and Susto, "Learning to Rank
    from Relevance Judgments Distributions", section 4).

    Passed to `BatchedLists` as its `label_transform`.

    Attributes:
        num_trials: draws per label; the more, the nearer to the label.
        max_label: the highest grade.
        seed: seed of the draws.
        per_epoch: whether each pass over the lists has other draws, which depend on
            the seed and the number of the pass only; else all passes have the same.

    Examples:
        >>> sampled = BinomialLabels(num_trials=32, max_label=2.0, seed=1)
        >>> sampled(np.float32([0, 1, 2, 1]), epoch=0)
        array([0.    , 1.1875, 2.    , 0.9375], dtype=float32)
    """

    num_trials: int = 32
    max_label: float = 1.0
    seed: int = 0
    per_epoch: bool = False

    def __post_init__(self) -> None:
        """Checks the arguments."""
        if self.num_trials < 1:
            raise ValueError(
                f"`num_trials` must be at least 1. Received: {self.num_trials}."
            )
        if not 0 < self.max_label < float("inf"):
            raise ValueError(
                "`max_label` must be a positive finite number. "
                f"Received: {self.max_label}."
            )

    def of_piece(self, number: int) -> BinomialLabels:
        """Returns what draws other labels for one of several pieces of the lists.

        Args:
            number: number of the piece.
        """
        return dataclasses.replace(self, seed=(number << 32) + self.seed)

    def __call__(self, labels: np.ndarray, epoch: int) -> np.ndarray:
        """Draws labels.

        Args:
            labels: labels of any shape, from 0 to `max_label`.
            epoch: number of the pass over the lists.

        Returns:
            float32 labels of the same shape.

        Raises:
            ValueError: if a label is above `max_label` or below 0.
        """
        probabilities = np.asarray(labels, np.float64) / self.max_label
        # A label such as 0.1 is a little more in float32.
        wrong = ~((probabilities >= 0) & (probabilities <= 1 + 1e-6))
        if wrong.any():
            value = np.asarray(labels)[wrong].ravel()[0]
            raise ValueError(
                f"Labels to sample around must be from 0 to `max_label` = "
                f"{self.max_label:g}. There is a label {value:g}."
            )
        number = epoch if self.per_epoch else 0
        rng = np.random.default_rng([self.seed, number, _STREAM])
        drawn = rng.binomial(self.num_trials, np.minimum(probabilities, 1))
        return (drawn * (self.max_label / self.num_trials)).astype(np.float32)
