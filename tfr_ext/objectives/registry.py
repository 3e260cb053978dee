"""The metrics by name, and which of them losses can optimise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tfr_ext.core import checks, which_keras
from tfr_ext.objectives.objective import Metric, Objective

# The gains of metrics; 'power' is for losses only.
METRIC_GAINS = ["exponential", "linear"]

_METRICS: dict[str, type[Metric]] = {}
_T = TypeVar("_T", bound=type[Metric])
_NAME = re.compile(r"([a-z]+)(?:_([1-9][0-9]*))?")
# What may be meant as a name, in lower case.
_LIKE_NAME = re.compile(r"([a-z]+)[ _@-]?([0-9]*)")


def register(cls: _T) -> _T:
    """Registers a metric of this package under its `NAME`, and with Keras."""
    _METRICS[cls.NAME] = cls
    return which_keras.register(cls)


def of_name(name: str) -> type[Metric]:
    """Returns the class of a metric.

    Raises:
        ValueError: If there is no metric of that name.
    """
    _check_known(name, names())
    return _METRICS[name]


def names(having: Callable[[type[Metric]], bool] = lambda cls: True) -> list[str]:
    """Returns the names of the metrics, or of those that meet a condition.

    Args:
        having: the condition, which takes the class of a metric.

    Examples:
        >>> names(lambda cls: cls.is_cost)
        ['arp']
    """
    return sorted(name for name, cls in _METRICS.items() if having(cls))


def title(metric: str) -> str:
    """Returns a metric's name as papers write it.

    Args:
        metric: a name with or without a cut-off; an unknown name is capitalised.

    Examples:
        >>> title('ndcg_10'), title('precision_5'), title('map')
        ('NDCG@10', 'P@5', 'MAP')
    """
    name, _, cut_off = plain_name(metric).partition("_")
    known = _METRICS.get(name)
    name = (known.TITLE if known else "") or name.upper()
    return f"{name}@{cut_off}" if cut_off else name


def quoted(some: list[str]) -> str:
    """Returns names of metrics, quoted for a message."""
    return " or ".join(map(repr, some))


def loss_names(reading: str) -> list[str]:
    """Returns the names of the metrics that losses can optimise.

    Args:
        reading: what the metrics are computed from: 'ranks' or 'positions'.
    """
    return names(lambda cls: reading in cls.READINGS and not cls.NO_LOSS)


def check_effects(metric: str, known: list[str], **arguments: Any) -> None:
    """Checks that arguments that a metric does not have are at their defaults.

    Args:
        metric: name of the metric.
        known: names of the metrics to suggest in the error.
        **arguments: values of arguments, of this metric or of others.

    Raises:
        ValueError: If an argument is out of range, or differs from its default although
            the metric does not have it.
    """
    for argument, value in arguments.items():
        takers = [name for name, cls in sorted(_METRICS.items()) if cls.takes(argument)]
        users = [name for name in takers if name in known] or takers
        default = getattr(_METRICS[users[0]], argument)
        needs = f"metric {quoted(users)}"
        checks.has_effect(argument, value, default, metric in users, needs)


def of_loss(metric: str, reading: str, **arguments: Any) -> Objective:
    """Builds the objective of a loss, using only the arguments that it has.

    Args:
        metric: name of the metric.
        reading: what to compute it from: 'ranks' or 'positions'.
        **arguments: values of arguments, of this metric or of others.

    Raises:
        ValueError: If there is no such metric, no loss can optimise it, or an argument
            is out of range or differs from its default where it has no effect.
    """
    known = loss_names(reading)
    cls = _METRICS.get(metric) if isinstance(metric, str) else None
    if cls is not None and cls.NO_LOSS:
        raise ValueError(
            f"`metric` must be one of {known}. Received: {metric!r}, which no loss "
            f"optimises, {cls.NO_LOSS}."
        )
    _check_known(metric, known)
    of_some = {k: v for k, v in arguments.items() if k not in ("topn", "expected")}
    check_effects(metric, known, **of_some)
    objective = get(metric, **arguments)
    assert isinstance(objective, Objective)  # as it has a reading
    return objective


def get(name: str, **arguments: Any) -> Metric:
    """Builds a metric by name, using only the arguments that it has.

    Args:
        name: one of `names()`.
        **arguments: values of arguments, of this metric or of others.

    Raises:
        ValueError: If the name is unknown or an argument is out of range.

    Examples:
        >>> get("precision", topn=5, max_label=2.)
        Precision(topn=5, relevance_threshold=1.0)
    """
    return of_name(name)(**taken(name, **arguments))


def taken(metric: str, **arguments: Any) -> dict[str, Any]:
    """Returns the arguments that a metric has.

    Args:
        metric: name of the metric.
        **arguments: values of arguments, of this metric or of others.

    Examples:
        >>> taken("map", gain="linear", relevance_threshold=2.)
        {'relevance_threshold': 2.0}
    """
    cls = _METRICS[metric]
    return {name: value for name, value in arguments.items() if cls.takes(name)}


def of_metric(name: str, **arguments: Any) -> Metric:
    """Builds a metric of the exact ranking, using only the arguments that it has.

    Args:
        name: one of `names()`.
        **arguments: values of arguments, of this metric or of others.

    Raises:
        ValueError: If the name is unknown, an argument is out of range, or the gain is
            one that only losses have.
    """
    checks.choice("gain", arguments.get("gain", "exponential"), METRIC_GAINS)
    return get(name, **arguments)


def plain_name(name: str) -> str:
    """Returns the name of a metric as it is in files, without checking it.

    Examples:
        >>> plain_name('ndcg@10')
        'ndcg_10'
    """
    return name.strip().replace("@", "_")


def parse(name: str, argument: str = "") -> tuple[str, int | None]:
    """Returns the metric and the cut-off of a name such as 'ndcg_10'.

    Args:
        name: a metric, or a metric, an underscore or '@', and a cut-off.
        argument: the argument that has the name, for errors.

    Raises:
        ValueError: If there is no such metric; the message has similar names.

    Examples:
        >>> parse('ndcg_10'), parse('ndcg@10'), parse('map')
        (('ndcg', 10), ('ndcg', 10), ('map', None))
    """
    if isinstance(name, str):
        match = _NAME.fullmatch(plain_name(name))
        if match and match[1] in names():
            return match[1], int(match[2]) if match[2] else None
    where = f" in `{argument}`" if argument else ""
    near = [f"{metric}_{topn}" if topn else metric for metric, topn in _similar(name)]
    guess = _guess(map(repr, near))
    if isinstance(name, str) and "," in name:
        several = checks.as_sequence("", name, lambda _, one: parse(one))
        guess = f"; give several names{several}." if several else guess
    raise ValueError(
        f"Unknown metric {name!r}{where}{guess} Expected one of "
        f"{names()}, optionally with a cut-off, such as 'ndcg_10'."
    )


def _check_known(metric: Any, known: list[str]) -> None:
    """Raises an error that lists the known metrics, and similar ones."""
    if not isinstance(metric, str) or metric not in known:
        near = [
            f"`metric={name!r}, topn={topn}`" if topn else repr(name)
            for name, topn in _similar(metric)
            if name in known
        ]
        raise ValueError(
            f"`metric` must be one of {known}. Received: {metric!r}{_guess(near)}"
        )


def _guess(near: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown metric."""
    words = " or ".join(near)
    return f"; did you mean {words}?" if words else "."


def _similar(name: Any) -> list[tuple[str, str]]:
    """Returns the metrics and cut-offs that a wrong name may mean.

    Examples:
        >>> _similar('NDCG10'), _similar('P@5'), _similar('ndgc'), _similar('ndcg_0')
        ([('ndcg', '10')], [('precision', '5')], [('ndcg', '')], [])
    """
    match = (
        _LIKE_NAME.fullmatch(name.strip().lower()) if isinstance(name, str) else None
    )
    if match is None or (match[2] and int(match[2]) == 0):
        return []
    titles = {cls.TITLE.lower(): metric for metric, cls in _METRICS.items()}
    known = {**dict(zip(names(), names())), **titles}
    word = match[1]
    close = [word] if word in known else difflib.get_close_matches(word, known)
    return [(metric, match[2]) for metric in dict.fromkeys(known[x] for x in close)]
