"""The libraries of gradient-boosted trees, which are imported when they are used."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import Any

NAMES = ("lightgbm", "catboost")
"""The libraries."""


def versions() -> dict[str, str]:
    """Returns the versions of those that are installed."""
    found = {}
    for name in NAMES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def imported(name: str) -> Any:
    """Returns a library.

    Args:
        name: 'lightgbm' or 'catboost'.

    Raises:
        ImportError: if it cannot be imported; the message says how to install it.

    Examples:
        >>> imported("lightgbm").__name__
        'lightgbm'
    """
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:  # OSError: without a system library
        raise ImportError(
            f"Gradient-boosted trees need {name}, which cannot be imported ({error}). "
            "Install it: pip install tfr-ext[gbm]"
        ) from error
