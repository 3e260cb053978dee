"""The modules behind `pipelines.experiment`."""

from pipelines.start import tensorflow_import  # noqa: F401
