"""Text as Markdown shows it."""

from __future__ import annotations

import re


def as_markdown(text: str) -> str:
    r"""Returns text as Markdown shows it, on one line.

    Examples:
        >>> print(as_markdown('1. *a* | #b'))
        1\. \*a\* \| \#b
    """
    text = re.sub(r"([\\|*_`<>\[\]#~$&])", r"\\\1", " ".join(text.split()))
    # What would begin a list or underline a heading.
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", text)
