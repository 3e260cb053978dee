"""Hides log messages that say less than the code that causes them knows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from absl import logging


@contextlib.contextmanager
def without(text: str) -> Iterator[None]:
    """Hides the messages of absl and TensorFlow that have some text in them.

    Args:
        text: the text.

    Examples:
        >>> with without("of no use"):
        ...     logging.warning("This is of no use.")
    """

    def wanted(record: Any) -> bool:
        return text not in record.getMessage()

    loggers = (logging.get_absl_logger(), tf.get_logger())
    for logger in loggers:
        logger.addFilter(wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(wanted)
