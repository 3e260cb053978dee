"""The modules behind `pipelines.prepare`."""

from pipelines.start import tensorflow_import  # noqa: F401
