"""Hides log messages that say less than the code that causes them knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from absl import logging


@contextlib.contextmanager
def without(text: str) -> Iterator[None]:
    """Hides the messages of absl that have some text in them.

    Args:
        text: the text.

    Examples:
        >>> with without("of no use"):
        ...     logging.warning("This is of no use.")
    """

    def wanted(record: Any) -> bool:
        return text not in record.getMessage()

    logger = logging.get_absl_logger()
    logger.addFilter(wanted)
    try:
        yield
    finally:
        logger.removeFilter(wanted)
