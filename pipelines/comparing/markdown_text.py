"""Text as Markdown shows it."""

from __future__ import annotations

import re

from tfr_ext.core import telling


def as_markdown(text: str) -> str:
    r"""Returns text as Markdown shows it, on one line.

    Examples:
        >>> print(as_markdown('1. *a* | #b'))
        1\. \*a\* \| \#b
    """
    text = telling.visible(" ".join(text.split()))
    text = re.sub(r"([\\|*_`<>\[\]#~$&])", r"\\\1", text)
    # What would begin a list or underline a heading.
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", text)
