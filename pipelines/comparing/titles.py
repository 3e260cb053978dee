"""What metrics are called in tables and plots."""

from __future__ import annotations

from tfr_ext import objectives


def title_of(metric: str) -> str:
    """Returns a metric's name as papers have it.

    Examples:
        >>> title_of('ndcg_10'), title_of('precision_5'), title_of('map')
        ('NDCG@10', 'P@5', 'MAP')
    """
    name, _, cut_off = metric.partition("_")
    title = objectives.of_name(name).TITLE if name in objectives.names() else ""
    name = title or name.upper()
    return f"{name}@{cut_off}" if cut_off else name
