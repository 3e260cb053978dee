"""The commands of tfr_ext: flags in, files out."""

import os
import sys

from pipelines import interruption

if sys.argv[:1] == ["-m"]:  # A command is starting, and TensorFlow takes seconds.
    interruption.watch()

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Before TensorFlow, so that it finds the Keras that TensorFlow Ranking needs.
import tfr_ext  # noqa: E402, F401
