"""The base classes of relaxations: how a metric is computed from relaxed ranks."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import tensorflow as tf

from tfr_ext.core import checks, masked
from tfr_ext.core.arguments import Argument, Declared, Sharpness
from tfr_ext.core.which_keras import register
from tfr_ext.objectives.objective import SLOPE, Objective


@dataclasses.dataclass(frozen=True)
class Relaxation(Declared, abc.ABC):
    """Maps scores to ranks or positions, so that a metric of them has a gradient.

    Its fields are its arguments. Those declared as annealable in `ARGUMENTS` may be
    schedules and are read with `now`.
    """

    # The inputs of an objective: 'ranks' or 'positions'.
    READING: ClassVar[str] = ""
    # The argument that brings it closer to the exact sort.
    SHARPNESS: ClassVar[Sharpness | None] = None

    @abc.abstractmethod
    def metric(
        self,
        objective: Objective,
        labels: tf.Tensor,
        scores: tf.Tensor,
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the metric of each list, `[batch]`, differentiable in the scores.

        Args:
            objective: the metric.
            labels: labels, 0 at padding, `[batch, list]`.
            scores: scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`; there is at least one column.
        """

    def check_fits(self, objective: Objective) -> None:
        """Checks that the arguments make sense for an objective.

        Raises:
            ValueError: If they do not.
        """

    def smooth(self) -> Relaxation:
        """Returns the relaxation with its relaxed value; by default itself."""
        return self


@dataclasses.dataclass(frozen=True)
class Indicators(Relaxation):
    """A relaxation that says which item stands at each rank."""

    READING = "ranks"
    # Whether `expectation` accepts more ranks than the list has. A static number is
    # faster, and a cut-off is static.
    ANY_NUM_RANKS: ClassVar[bool] = False

    @abc.abstractmethod
    def indicators(
        self, scores: tf.Tensor, mask: tf.Tensor, num_ranks: masked.Size
    ) -> tf.Tensor:
        """Returns rank indicators, `[batch, num_ranks, list]`.

        Each row sums to 1 over the real items. Rows beyond the number of real items may
        hold any finite values.

        Args:
            scores: scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
            num_ranks: an int if it is static, else a scalar tensor.
        """

    def expectation(
        self,
        scores: tf.Tensor,
        mask: tf.Tensor,
        values: tf.Tensor,
        num_ranks: masked.Size,
    ) -> tf.Tensor:
        """Returns the expected value at each rank, `[batch, num_ranks]`.

        Args:
            scores: see `indicators`.
            mask: True at real items.
            values: a number for each item, 0 at padding, `[batch, list]`.
            num_ranks: see `indicators`.
        """
        return tf.linalg.matvec(self.indicators(scores, mask, num_ranks), values)

    def metric(
        self,
        objective: Objective,
        labels: tf.Tensor,
        scores: tf.Tensor,
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the metric of each list, `[batch]`, differentiable in the scores."""
        num_ranks = masked.num_ranks(labels, objective.topn)
        if self.ANY_NUM_RANKS and objective.topn is not None:
            if not isinstance(num_ranks, int):
                num_ranks = objective.topn
        values = objective.real_values(labels, mask)
        ranked = self.expectation(scores, mask, values, num_ranks)
        return objective.value(ranked, labels, mask)


@dataclasses.dataclass(frozen=True)
class Positions(Relaxation):
    """A relaxation that says at which rank each item stands, 1 for the best.

    Attributes:
        beta: slope of the sigmoids that replace a cut-off and the comparison of two
            positions.
    """

    READING = "positions"
    ARGUMENTS = {"beta": Argument(partial(checks.between, low=1e-30, high=1e30))}

    # By name only: what a subclass adds comes first.
    beta: float = dataclasses.field(default=SLOPE, kw_only=True)

    @abc.abstractmethod
    def positions(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns positive positions, any finite number at padding, `[batch, list]`.

        Args:
            scores: scores, 0 at padding, `[batch, list]`.
            mask: True at real items, `[batch, list]`.
        """

    def metric(
        self,
        objective: Objective,
        labels: tf.Tensor,
        scores: tf.Tensor,
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the metric of each list, `[batch]`, differentiable in the scores."""
        positions = self.positions(scores, mask)
        return objective.at_positions(positions, labels, mask, self.beta)

    def check_fits(self, objective: Objective) -> None:
        """Checks that the objective can be computed from positions, and uses `beta`."""
        objective.check_positions()
        checks.has_effect(
            "beta",
            self.beta,
            SLOPE,
            objective.topn is not None or objective.COMPARES_POSITIONS,
            "`topn`, or a metric that compares positions",
        )


@register
@dataclasses.dataclass(frozen=True)
class FromFunction(Relaxation):
    """A relaxation defined by a function of scores and mask.

    Attributes:
        function: takes scores and mask, `[batch, list]`, and returns rank indicators
            `[batch, list, list]`, or the positions of the items, `[batch, list]`. The
            configuration holds its name, under which it must be registered with Keras.
    """

    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | str

    def __post_init__(self) -> None:
        """Looks up a function that is given by its name."""
        if isinstance(self.function, str):
            found = tf.keras.utils.get_registered_object(self.function)
            if found is None:
                raise ValueError(
                    f"Keras does not know the function {self.function!r}. Import the "
                    "module that registers it."
                )
            object.__setattr__(self, "function", found)
        super().__post_init__()

    def metric(
        self,
        objective: Objective,
        labels: tf.Tensor,
        scores: tf.Tensor,
        mask: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the metric of each list, `[batch]`, differentiable in the scores."""
        assert callable(self.function)
        found = self.function(scores, mask)
        if found.shape.rank == 2:
            return objective.at_positions(found, labels, mask)
        if found.shape.rank != 3:
            raise ValueError(
                "A relaxation must return indicators [batch, list, list] or positions "
                f"[batch, list]. Received: shape {found.shape}."
            )
        return objective(
            found[:, : masked.num_ranks(labels, objective.topn)], labels, mask
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the name of the function.

        Raises:
            ValueError: If the function is not registered with Keras.
        """
        name = tf.keras.utils.get_registered_name(self.function)
        if tf.keras.utils.get_registered_object(name) is not self.function:
            raise ValueError(
                f"{self.function} cannot be saved, as Keras does not know it. Decorate "
                "it with `@tf.keras.utils.register_keras_serializable('my_project')`."
            )
        return {"function": name}
