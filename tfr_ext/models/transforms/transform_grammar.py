"""How feature transforms are written."""

from __future__ import annotations

import re

FORMS = (
    "'log1p', 'query_minmax', 'query_standard', 'query_rank', 'standard', 'quantile', "
    "'quantile:N', where N is a number of quantiles (100 by default), 'clip:LO:HI', "
    "where LO or HI may be empty, and 'raw' for the features as they are. A + between "
    "several, such as 'standard+query_rank', puts what each gives side by side"
)
"""The forms that `feature_transforms` takes, for messages and help texts."""

# No name starts with a digit: in 'clip:0:1e+3+raw' only the last + is between two.
_PLUS = re.compile(r"\+(?=[^\d.])")


def parts_of(form: str) -> list[str]:
    """Returns the transforms whose outputs stand side by side.

    Examples:
        >>> parts_of("raw+clip:0:+query_rank"), parts_of("clip:-1e+3:+1e3")
        (['raw', 'clip:0:', 'query_rank'], ['clip:-1e+3:+1e3'])
    """
    return _PLUS.split(form)
