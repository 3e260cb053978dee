"""What a public object says about itself, built with nothing but its defaults."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import tensorflow as tf

import tfr_ext
from tfr_ext import evaluation, metrics

WORDS = ("describe", "as_dict", "config", "get_config")


def public_classes():
    """The classes that modules define and do not hide, but for errors."""
    found = {}
    for module in pkgutil.walk_packages(tfr_ext.__path__, "tfr_ext."):
        try:
            imported = importlib.import_module(module.name)
        except ImportError as error:
            # Of TensorFlow Datasets or TensorFlow Ranking, where they are not there.
            text = str(error).lower()
            assert "datasets" in text or "ranking" in text, module
            continue
        for name, cls in inspect.getmembers(imported, inspect.isclass):
            hidden = name.startswith("_") or issubclass(cls, Exception)
            if cls.__module__ == module.name and not hidden:
                found[f"{module.name}.{name}"] = cls
    return found


def test_what_objects_say_with_their_defaults():
    built = {}
    for name, cls in public_classes().items():
        parameters = inspect.signature(cls).parameters.values()
        positional = [p for p in parameters if p.kind not in (p.VAR_KEYWORD,)]
        if inspect.isabstract(cls) or any(p.default is p.empty for p in positional):
            continue
        try:
            built[name] = cls()
        except ValueError as error:
            assert "needs" in str(error) or "`" in str(error), (name, error)
    assert len(built) > 25
    said = 0
    for name, thing in built.items():
        assert repr(thing) and str(thing), name
        for word in WORDS:
            value = getattr(thing, word, None)
            # A class without arguments has an empty configuration.
            if value is not None and inspect.signature(type(thing)).parameters:
                assert value() if callable(value) else value, (name, word)
                said += 1
    assert said > 20


def test_a_convention_without_a_highest_label_describes_itself():
    assert "highest label not given;" in evaluation.Convention().describe()
    assert "highest label 2;" in evaluation.Convention(max_label=2).describe()


@pytest.mark.parametrize(
    "metric",
    [
        metrics.RankingMetric(),
        metrics.ERRMetric(max_label=1),
        metrics.SinkhornErrorMetric(),
    ],
    ids=lambda metric: metric.name,
)
def test_metrics_tell_how_to_drop_a_last_dimension_of_scores(metric):
    scores = np.zeros([2, 3, 1], np.float32)
    with pytest.raises(ValueError, match=r"Reshape\(\[-1\]\)"):
        metric(tf.zeros([2, 3]), scores)
    with pytest.raises(ValueError) as error:
        metric(tf.zeros([2, 3]), np.zeros([2, 3, 2], np.float32))
    assert "Reshape" not in str(error.value)
