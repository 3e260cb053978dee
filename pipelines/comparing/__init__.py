"""Reports of a comparison of runs: tables and an HTML page."""

from pipelines.start import tensorflow_import  # noqa: F401
