"""Float64 oracles with plain loops, written from the papers; no TensorFlow in here.

One list at a time, real items only. Scores may be complex: the imaginary part then
carries a derivative (complex step), which `gradient` uses to get derivatives that are
exact to rounding, by a way that shares nothing with the code under test.
"""

from tests.oracles.gradients import gradient
from tests.oracles.metrics import exact_indicators, gain_of, metric

__all__ = ["exact_indicators", "gain_of", "gradient", "metric"]
