"""Files that are there whole or not at all."""

from __future__ import annotations

import os


def write_atomically(path: str, text: str) -> None:
    """Writes a text file aside and renames it, so that it is there whole or not at all.

    Args:
        path: the file.
        text: all of its content.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    aside = f"{path}.writing"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
