"""The commands of tfr_ext: flags in, files out."""

from pipelines import quiet_start

# Before TensorFlow, so that it finds the Keras that TensorFlow Ranking needs.
with quiet_start.hidden():
    import tfr_ext  # noqa: F401
