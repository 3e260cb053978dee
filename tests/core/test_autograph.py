"""AutoGraph converts nothing of ours that Keras calls in each batch."""

import importlib
import pkgutil

import pytest
import tensorflow as tf

import tfr_ext
from tfr_ext import losses, relaxations
from tfr_ext.models.transforms.feature_transform import FeatureTransform

BASES = (tf.keras.losses.Loss, tf.keras.metrics.Metric, tf.keras.layers.Layer)
METHODS = ("__call__", "call", "update_state", "result")
# Users may write transforms with Python's `if` on tensors.
CONVERTED = {(FeatureTransform, "call")}


def all_below(cls):
    return {cls}.union(*map(all_below, cls.__subclasses__()))


def test_methods_are_called_as_they_are_written():
    for module in pkgutil.walk_packages(tfr_ext.__path__, "tfr_ext."):
        try:
            importlib.import_module(module.name)
        except ImportError:  # It needs a package that is not there.
            continue
    ours = {
        (cls, method)
        for cls in set().union(*map(all_below, BASES))
        if cls.__module__.startswith("tfr_ext.")
        for method in METHODS
        if method in vars(cls)
    }
    assert len(ours) > 15
    assert {
        (cls, method)
        for cls, method in ours
        if not hasattr(vars(cls)[method], "autograph_info__")
    } == CONVERTED


class Branching(relaxations.Indicators):
    """Indicators with an `if` on tensors, which only AutoGraph would understand."""

    def indicators(self, scores, mask, num_ranks):
        if tf.reduce_all(mask):
            scores = scores * 2
        return relaxations.smoothi(scores, mask, num_ranks)


def test_a_branch_of_python_on_tensors_is_refused_in_a_graph():
    loss = losses.MetricLoss(Branching(), tfr_ext.objectives.NDCG())
    labels, scores = tf.constant([[0.0, 1.0]]), tf.constant([[0.5, 0.2]])
    assert loss(labels, scores) > 0
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        tf.function(loss)(labels, scores)
