"""Losses, metrics, models and data for TensorFlow Ranking.

>>> import tfr_ext
>>> loss = tfr_ext.losses.SmoothILoss(alpha=1.0)
"""

from tfr_ext import data, losses, metrics, models
from tfr_ext.version import __version__

__all__ = ["__version__", "data", "losses", "metrics", "models"]
