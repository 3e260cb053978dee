"""Figures as small files."""

from __future__ import annotations

import io
import pathlib

import matplotlib.figure
import PIL.Image


def save(
    figure: matplotlib.figure.Figure, path: pathlib.Path, colours: int = 64
) -> None:
    """Saves a figure as a PNG of few colours.

    Args:
        figure: what is drawn.
        path: the file.
        colours: how many colours it has.
    """
    image = io.BytesIO()
    figure.savefig(image)
    reduced = PIL.Image.open(image).convert("RGB").quantize(colours)
    reduced.save(path, format="PNG", optimize=True)
