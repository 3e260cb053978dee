"""The tests; tfr_ext comes before TensorFlow, to choose its Keras."""

import tfr_ext  # noqa: F401
