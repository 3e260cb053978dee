"""The reference reader of LETOR text: slow, with exact error messages.

`tfr_ext.data.letor` reads good text with array operations. If they see anything
unusual, this module re-reads the chunk line by line, and either raises an error that
names the line or returns the chunk.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Callable, Sequence

import numpy as np

from tfr_ext.core.decimals import NUMBER
from tfr_ext.data.errors import DataFormatError

MAX_INDEX = 1_000_000
"""Largest feature index accepted if the caller does not give the number of features."""

_NUMBER = re.compile(NUMBER)
_TOKEN = re.compile(rb"[^ \t]+")
_DOC_ID = re.compile(rb"[ \t]*docid[ \t]*=[ \t]*([^ \t]+)", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x20\x7f]")
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_SHOWN = 40


class _HintedError(ValueError):
    """An error with a hint, which depends on the path of the file."""

    def __init__(self, problem: str, hint: Callable[[str], str]) -> None:
        super().__init__(problem)
        self.hint = hint


@dataclasses.dataclass(frozen=True)
class Chunk:
    """The contents of some whole lines of a file, an entry per line with data.

    Attributes:
        lines: Line numbers in the file, from 1.
        labels: float32 labels; 0 where they are not wanted.
        doc_ids: Document identifiers, or None if a line has none.
        counts: Number of features of each line.
        index: Feature indices, from 1, of all lines, as they follow in the text.
        value: float32 feature values that belong to `index`.
        repeats: Numbers of the lines that give an index twice. The last value counts,
            as in TensorFlow Ranking; `index` and `value` have no other.
    """

    lines: Sequence[int]
    labels: np.ndarray
    query_ids: list[str]
    doc_ids: list[str] | None
    counts: np.ndarray
    index: np.ndarray
    value: np.ndarray
    num_null: int
    repeats: Sequence[int] = ()


def out_of_range(index: str, num_features: int | None) -> str:
    """Returns the error for a feature index that is not accepted."""
    if num_features is None:
        allowed = f"1 to {MAX_INDEX} (the limit where `num_features` is None)"
    else:
        allowed = f"1 to {num_features} (num_features={num_features})"
    return f"feature index {index} is out of range, expected {allowed}"


def parse_label(token: bytes) -> np.float32:
    """Reads a label, which must be a number from 0 up that float32 can hold."""
    label = _parse_number(token, "label")
    if label < 0:
        raise ValueError(
            "label is negative, expected a number >= 0 "
            "(a negative label marks padding in TensorFlow Ranking)"
        )
    return label + np.float32(0)  # -0.0 becomes 0.0.


def label_parser(labelled: bool) -> Callable[[bytes], np.float32]:
    """Returns the function that reads the labels of lines.

    If labels are not wanted, a line may have none, or any number, and its label is 0.
    """
    return parse_label if labelled else _skip_label


def parse_slowly(
    text: bytes,
    path: str,
    first_line: int,
    num_features: int | None,
    missing_value: float,
    labelled: bool = True,
) -> Chunk:
    """Reads lines one by one and explains the first one that is wrong.

    `text` is whole lines, each with its line feed. Indices up to `num_features` are
    accepted, or up to `MAX_INDEX` if it is None, and `NULL` becomes `missing_value`.
    """
    read_label = label_parser(labelled)
    lines: list[int] = []
    labels: list[np.float32] = []
    query_ids: list[str] = []
    doc_ids: list[str | None] = []
    counts: list[int] = []
    features: list[tuple[int, np.float32 | None]] = []
    repeats: list[int] = []
    for number, line in enumerate(text.split(b"\n")[:-1], first_line):
        token = line
        try:
            line = line[:-1] if line.endswith(b"\r") else line
            for char, name in ((b"\0", "NUL byte"), (b"\r", "carriage return")):
                if char in line:
                    token = line[max(0, line.find(char) - 10) :]
                    raise ValueError(f"unexpected {name}, expected one line of text")
            data, _, comment = line.partition(b"#")
            tokens = _TOKEN.findall(data)
            if not tokens:
                continue
            if not labelled and [x[:4] == b"qid:" for x in tokens[:2]] != [False, True]:
                tokens.insert(0, b"")
            token = tokens[0]
            labels.append(read_label(token))
            token = tokens[1] if len(tokens) > 1 else line
            query_ids.append(_parse_query_id(token, labelled))
            values: dict[int, np.float32 | None] = {}
            for token in tokens[2:]:
                index, value = _parse_feature(token, num_features)
                values.pop(index, None)  # The last one counts, in its own place.
                values[index] = value
            token = comment
            doc_ids.append(_parse_doc_id(comment))
        except ValueError as error:
            shown = token.decode("utf-8", "backslashreplace")
            if len(shown) > _SHOWN:
                shown = shown[:_SHOWN] + "..."
            hint = error.hint(path) if isinstance(error, _HintedError) else ""
            raise DataFormatError(
                f"{error}. Found: {shown!r}{hint}", path, number
            ) from None
        lines.append(number)
        counts.append(len(values))
        features += values.items()
        if len(values) < len(tokens) - 2:
            repeats.append(number)
    found_ids = [x for x in doc_ids if x is not None]
    return Chunk(
        lines,
        np.array(labels, np.float32),
        query_ids,
        found_ids if len(found_ids) == len(lines) else None,
        np.array(counts, np.int64),
        np.array([i for i, _ in features], np.int64),
        np.array([missing_value if v is None else v for _, v in features], np.float32),
        sum(v is None for _, v in features),
        repeats,
    )


def _skip_label(token: bytes) -> np.float32:
    if token:
        _parse_number(token, "label")
    return np.float32(0)


def _parse_number(token: bytes, what: str) -> np.float32:
    """Reads a decimal number that float32 can hold."""
    if not _NUMBER.fullmatch(token):
        if _NOT_FINITE.fullmatch(token):
            raise ValueError(f"{what} is not finite, expected a finite number")
        problem = f"{what} is not a number, expected a decimal number"
        if what == "label" and b"," in token:
            raise _HintedError(problem, _table_hint)
        raise ValueError(problem)
    with np.errstate(over="ignore", under="ignore"):
        number = np.float32(float(token))
    if not np.isfinite(number):
        raise ValueError(f"{what} is too large, expected a number that float32 holds")
    return number


def _parse_query_id(token: bytes, labelled: bool) -> str:
    """Reads `qid:NAME`."""
    if not token.startswith(b"qid:"):
        where = "after the label" if labelled else "first, or after a label"
        raise _HintedError(
            f"the query is missing, expected `qid:NAME` {where}",
            _groups_hint if b":" in token else _table_hint,
        )
    if token == b"qid:":
        raise ValueError("the query is empty, expected `qid:NAME` without a blank")
    if _CONTROL.search(token):
        raise ValueError("the query holds a control character, expected text")
    return _decode(token[4:], "the query")


def _groups_hint(path: str) -> str:
    """Returns a hint on how sizes of groups become queries."""
    sizes = path + (".group" if os.path.exists(path + ".group") else ".query")
    return (
        f"\nLightGBM keeps the number of lines of each query in {path}.query, and "
        f"XGBoost in {path}.group. If there is such a file, this writes them into the "
        "lines:\n  awk 'NR == FNR {for (i = 0; i < $1; i++) query[++n] = NR; next} "
        '{$1 = $1 " qid:" query[FNR]} '
        f"1' {shlex.quote(sizes)} {shlex.quote(path)} > NEW_FILE"
    )


def _table_hint(path: str) -> str:
    return (
        "\nIf this is a table (CSV or TSV), read it with `dataset='table'`. Its first "
        "line must name the columns, and one of them must hold the queries."
    )


def _zero_hint(path: str) -> str:
    return (
        "\nThis file counts features from 0, as scikit-learn's dump_svmlight_file does "
        "by default. Write it with zero_based=False, or add 1 to each index:\n"
        "  awk '{for (i = 1; i <= NF; i++) {if ($i ~ /^[0-9]+:/) "
        '$i = $i + 1 substr($i, index($i, ":")); if ($i ~ /#/) break}} '
        f"1' {shlex.quote(path)} > NEW_FILE"
    )


def _parse_doc_id(comment: bytes) -> str | None:
    """Reads `docid = NAME` at the start of a comment."""
    match = _DOC_ID.match(comment)
    return _decode(match[1], "the document") if match else None


def _decode(token: bytes, what: str) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not text, expected UTF-8") from None


def _parse_feature(
    token: bytes, num_features: int | None
) -> tuple[int, np.float32 | None]:
    """Reads `INDEX:VALUE`; the value is None for `NULL`."""
    parts = token.split(b":")
    if len(parts) != 2:
        problem = "a feature has no colon" if len(parts) < 2 else "two colons"
        raise ValueError(f"{problem}, expected `INDEX:VALUE`")
    name, value = parts
    digits = name[1:] if name[:1] == b"-" else name
    if not digits.isdigit():
        raise ValueError("a feature has no index, expected `INDEX:VALUE`")
    # Not int() yet: it refuses thousands of digits with words of its own.
    index = int(name) if len(digits.lstrip(b"0")) < 18 else 10**18
    if digits is not name or not 1 <= index <= (
        MAX_INDEX if num_features is None else num_features
    ):
        shown = name.decode() if len(name) <= 24 else name[:24].decode() + "..."
        problem = out_of_range(shown, num_features)
        if not index and digits is name:
            raise _HintedError(problem, _zero_hint)
        raise ValueError(problem)
    if value == b"NULL":
        return index, None
    if not value:
        raise ValueError("a feature has no value, expected `INDEX:VALUE`")
    return index, _parse_number(value, "feature value")
