"""JSON files that hold one object, with errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

_NAMES = (
    *((bool, "a boolean"), (int, "an integer"), (float, "a number")),
    *((str, "a string"), (list, "a list"), (dict, "an object")),
    (type(None), "nothing"),
)

Kinds = Mapping[str, tuple[type, ...]]


def read_object(path: str, writer: str, kinds: Kinds | None = None) -> dict[str, Any]:
    """Reads a JSON object from a file, on any file system that `tf.io.gfile` knows.

    Errors name `writer`, such as '`python -m pipelines.train`', as what writes such
    files. For each key that is used, `kinds` has the types that its value may have,
    including `type(None)` if the key may be missing.

    Examples:
        >>> import tempfile
        >>> path = tempfile.mkstemp()[1]
        >>> _ = open(path, "w").write('["a"]')
        >>> read_object(path, "`python -m pipelines.train`")
        Traceback (most recent call last):
        ValueError: /...: expected a JSON object, as `python -m pipelines.train` writes. Found: a list.
    """  # noqa: E501 (output)
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    expected = f"{path}: expected a JSON object, as {writer} writes."
    try:
        content = json.loads(data)
    except RecursionError as error:
        raise ValueError(f"{expected} Found: brackets nested too deeply.") from error
    except ValueError as error:  # invalid JSON or UTF-8
        raise ValueError(f"{expected} Found: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(f"{expected} Found: {_kind(content)}.")
    for key, types in (kinds or {}).items():
        value = content.get(key)
        # To Python a boolean is an integer; here an integer is also a number.
        kind = float if type(value) is int and int not in types else type(value)
        if kind not in types:
            wanted = " or ".join(name for kind, name in _NAMES if kind in types)
            raise ValueError(
                f"{expected} {key!r} must be {wanted}. Found: {_kind(value)}."
            )
    return content


def _kind(value: Any) -> str:
    return next(name for kind, name in _NAMES if isinstance(value, kind))
