"""The base classes of scikit-learn, or stand-ins if it is not installed."""

from __future__ import annotations

import inspect
from typing import Any

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError:

    class BaseEstimator:  # type: ignore[no-redef]
        """The parameters of an estimator, as scikit-learn reads and sets them."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Returns the parameters by name."""
            return {name: getattr(self, name) for name in parameters(type(self))}

        def set_params(self, **params: Any) -> BaseEstimator:
            """Sets parameters, and returns the estimator."""
            for name, value in params.items():
                if name not in parameters(type(self)):
                    raise ValueError(f"Invalid parameter {name!r}.")
                setattr(self, name, value)
            return self

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """An estimator is used before it is fitted."""


def parameters(cls: type) -> list[str]:
    """Returns the names of the parameters of a class."""
    return list(inspect.signature(cls).parameters)
