"""Finds the files that a user's paths and patterns name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Union

import tensorflow as tf

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


def find_files(paths: Paths) -> list[str]:
    """Expands paths and patterns; every one must match.

    `paths` is a path, a pattern such as `data/*.txt`, several of them separated by
    commas, or an iterable of those, on any file system that `tf.io.gfile` knows. The
    files that match a pattern are sorted.

    Examples:
        >>> import os, tempfile
        >>> directory = tempfile.mkdtemp()
        >>> for name in ("b.txt", "a.txt"):
        ...     open(os.path.join(directory, name), "w").close()
        >>> [os.path.basename(file) for file in find_files(directory + "/*.txt")]
        ['a.txt', 'b.txt']
    """
    files = _expand(paths)
    if not files:
        raise FileNotFoundError(f"Expected a path. Received: paths={paths!r}.")
    return files


def _expand(paths: Any) -> list[str]:
    if isinstance(paths, str):
        patterns = [pattern.strip() for pattern in paths.split(",")]
        if paths and tf.io.gfile.exists(paths):
            patterns = [paths]
    elif isinstance(paths, os.PathLike):
        patterns = [os.fspath(paths)]
    else:
        return [file for path in paths for file in _expand(path)]
    files = []
    for pattern in patterns:
        if pattern and tf.io.gfile.exists(pattern):
            matches = [pattern]  # A name such as `a[1].txt` is not a pattern.
        else:
            matches = sorted(tf.io.gfile.glob(pattern)) if pattern else []
        if not matches:
            raise FileNotFoundError(
                f"No file matches {pattern!r}. Received: paths={paths!r}."
            )
        for path in matches:
            if tf.io.gfile.isdir(path):
                raise IsADirectoryError(f"{path} is a directory. Expected a file.")
        files += matches
    return files
