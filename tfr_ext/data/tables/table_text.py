"""Reads CSV text and JSON lines: rows, and lines for error messages."""

from __future__ import annotations

import codecs
import csv
import importlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.tables import frames, row_arrays
from tfr_ext.data.tables.category_columns import WHOLE
from tfr_ext.data.tables.frames import Columns
from tfr_ext.data.tables.row_arrays import RowError

LINES = "\n"  # The separator of JSON lines, whose first one has all names.
# Texts that stand for a missing number. (A query may well be called NA.)
_MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A"]
_TRUE, _FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
# A row can have this many bytes; PyArrow takes some that have up to twice as many.
_BLOCK_BYTES = 8 << 20
# The cells of a last row that is added: a quote that is left open swallows it.
_END = "\x01"


def read_header(path: str, separator: str) -> tuple[list[str], int]:
    """Returns the names of the columns, and the number of the line where they end."""
    for first, last, row in _rows(path, separator):
        # PyArrow takes it for the end of a line when it passes over the names.
        if any("\r" in name for name in row):
            problem = "unexpected carriage return, expected names of columns"
            raise DataFormatError(problem, path, first)
        return list(row), last
    raise DataFormatError("the file is empty, expected names of columns", path)


def read_frames(
    path: str, separator: str, columns: Columns, rows: int | None
) -> Iterator[Any]:
    """Reads text as pandas.DataFrames of at most `rows` rows, or as one of all rows.

    Labels, weights and features become numbers. If the features are not named, every
    other column becomes numbers if all its values are, and texts otherwise. Categories
    stay texts, but for whole numbers in a first file. Of JSON, all stay as they are.
    """
    pandas = imported("pandas")
    header = read_header(path, separator)
    wanted, _ = header
    if columns.features is not None:
        wanted = [*columns.others, *columns.features]
    if separator == LINES:
        items = (item for _, _, item in _rows(path, separator))
        while part := list(itertools.islice(items, rows)):
            yield pandas.DataFrame(part, columns=wanted, dtype=object)
        return
    hints = {name: "" for name in (columns.label, columns.weight) if name is not None}
    hints |= dict.fromkeys(columns.features or (), row_arrays.WITHOUT_TEXT)
    before = 0
    for batch in _batches(path, separator, header, wanted, rows):
        values = {}
        for name in wanted:
            try:
                as_text = *columns.texts, *columns.embeddings
                if name in (columns.query, columns.doc_id, *as_text):
                    values[name] = batch[name].to_pandas()
                elif name in columns.categories:
                    values[name] = _category(batch[name], columns.spec is None)
                else:
                    values[name] = _numbers(batch[name], name, hints.get(name, ""))
            except RowError as error:
                if name in hints:
                    row = before + error.row
                    line = line_of(path, separator, row)
                    problem = f"row {row}: {error.problem}"
                    raise DataFormatError(problem, path, line) from None
                values[name] = batch[name].to_pandas()
        before += len(batch)
        yield pandas.DataFrame(values, copy=False)


def _batches(
    path: str,
    separator: str,
    header: tuple[list[str], int],
    wanted: Sequence[str],
    rows: int | None,
) -> Iterator[Any]:
    """Reads columns as tables of texts, each of so many rows at most."""
    arrow, module = imported("pyarrow"), imported("pyarrow.csv")
    found, lines = header
    end = f"\n{separator.join([_END] * len(found))}\n".encode()
    whole: list[Any] = []
    held = None
    with text_files.open_unpacked(path) as file:
        try:
            reader = module.open_csv(
                arrow.PythonFile(_Ended(file, end), mode="r"),
                module.ReadOptions(
                    column_names=found, skip_rows=lines, block_size=_BLOCK_BYTES
                ),
                module.ParseOptions(
                    delimiter=separator,
                    newlines_in_values=True,
                    invalid_row_handler=_skip_blanks,
                ),
                module.ConvertOptions(
                    column_types=dict.fromkeys(found, arrow.string()),
                    include_columns=list(dict.fromkeys(wanted)),
                ),
            )
            for batch in itertools.chain(reader, [None]):
                if held is not None and held.num_rows:
                    last = batch is None
                    if last and held[0][-1].as_py() != _END:
                        raise arrow.ArrowInvalid("a quote is left open")
                    table = arrow.Table.from_batches([held])
                    table = table.slice(0, len(table) - last)
                    if rows is None:
                        whole.append(table)
                    else:
                        for start in range(0, len(table), rows):
                            yield table.slice(start, rows)
                if batch is None or batch.num_rows:
                    held = batch
        except (arrow.ArrowException, _NotTextError) as error:
            _explain(path, separator, len(found))
            raise DataFormatError(f"expected a table: {error}", path) from None
    if whole and any(map(len, whole)):
        yield arrow.concat_tables(whole)


class _NotTextError(Exception):
    """Raised for a NUL byte, or bytes that are not UTF-8."""


class _Ended:
    """A text file with a last row of marks added."""

    closed = False

    def __init__(self, file: Any, end: bytes):
        self._file, self._end = file, end
        self._decode = codecs.getincrementaldecoder("utf-8")().decode

    def read(self, size: int) -> bytes:
        text = self._file.read(size) or self._end
        if not text:
            return text
        try:
            self._decode(text)
        except UnicodeDecodeError as error:
            raise _NotTextError from error
        if b"\0" in text:  # Other readers cut a cell there.
            raise _NotTextError
        if text is self._end:
            self._end = b""
        return text

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Leaves the file to who opened it."""


def _skip_blanks(row: Any) -> str:
    return "error" if row.actual_columns > 1 or row.text.strip() else "skip"


def _numbers(texts: Any, name: str, hint: str) -> np.ndarray:
    """Returns a column of texts as float64, with NaN for missing values."""
    arrow, compute = imported("pyarrow"), imported("pyarrow.compute")
    kind = arrow.float64()
    try:
        return texts.cast(kind).to_numpy()
    except arrow.ArrowInvalid:
        plain = compute.ascii_trim(texts, " \t")
    for words, number in ((_MISSING, None), (_TRUE, "1"), (_FALSE, "0")):
        named = compute.is_in(plain, value_set=arrow.array(words))
        plain = compute.if_else(named, arrow.scalar(number, arrow.string()), plain)
    try:
        return plain.cast(kind).to_numpy()
    except arrow.ArrowInvalid:
        for row, text in enumerate(plain):
            try:
                text.cast(kind)
            except arrow.ArrowInvalid:
                raise frames.not_a_number(name, texts[row].as_py(), row, hint) from None
        raise


def _category(texts: Any, is_first: bool) -> Any:
    """Returns a category as it stands; in a first file, integers if all cells are."""
    values = texts.to_pandas()
    filled = filter(None, values.unique())
    if not is_first or not all(WHOLE.fullmatch(text.encode()) for text in filled):
        return values
    whole = [int(text.partition(".")[0]) if text else None for text in values]
    return imported("pandas").Series(whole, dtype=object)


def line_of(path: str, separator: str, row: int) -> int | None:
    """Returns the line at which a row begins, counted from 0 after the names."""
    found = itertools.islice(_rows(path, separator), row + (separator != LINES), None)
    return next((first for first, _, _ in found), None)


def _rows(
    path: str, separator: str, strict: bool = False
) -> Iterator[tuple[int, int, Any]]:
    """Yields the first and last line of each row that is not blank, and its cells."""
    if separator == LINES:
        yield from _items(path)
        return
    lines = (f"{text}\n" for _, text in text_files.read_lines(path))
    rows = csv.reader(lines, delimiter=separator, strict=strict)
    first = 1
    try:
        while (row := _next(rows)) is not None:
            if row and (len(row) > 1 or row[0].strip()):
                yield first, rows.line_num, row
            first = rows.line_num + 1
    except csv.Error as error:
        raise DataFormatError(f"expected a table: {error}", path, first) from None


def _items(path: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields each line that is not blank, twice its number before its object."""
    names = None
    for line, text in text_files.read_lines(path):
        if not text.strip():
            continue
        try:
            item = json.loads(text)
        except (RecursionError, ValueError) as error:
            raise DataFormatError(f"expected JSON: {error}", path, line) from None
        names = names or item
        if not isinstance(item, dict) or not item.keys() <= names.keys():
            problem = "expected a JSON object with names that the first line has"
            raise DataFormatError(f"{problem}. Found: {text[:80]}", path, line)
        yield line, line, item


def _next(rows: Iterator[list[str]]) -> list[str] | None:
    """Returns the next row, whose cells may be long; None at the end."""
    limit = csv.field_size_limit(text_files.MAX_LINE_BYTES)  # Process-wide.
    try:
        return next(rows, None)
    finally:
        csv.field_size_limit(limit)


def _explain(path: str, separator: str, count: int) -> None:
    """Raises a DataFormatError for the first row that PyArrow refuses."""
    longest = None
    for first, _, row in _rows(path, separator, strict=True):
        if len(row) != count:
            raise DataFormatError(
                f"expected {count} cells, one for each name of a column. Found: "
                f"{len(row)}",
                path,
                first,
            )
        if sum(len(cell.encode()) + 1 for cell in row) > _BLOCK_BYTES:
            longest = longest or first
    if longest is not None:
        problem = f"expected a row of less than {_BLOCK_BYTES:,} bytes"
        raise DataFormatError(problem, path, longest)


def imported(name: str) -> Any:
    """Imports an optional module; an ImportError says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        # Later ones need NumPy 2, which TensorFlow 2.15 does not support.
        packages = "pandas pyarrow"
        if np.lib.NumpyVersion(np.__version__) < "2.0.0":
            packages = "'numpy<2' pandas 'pyarrow<26'"
        raise ImportError(
            f"Tables need {name.partition('.')[0]}, which cannot be imported "
            f"({error}). Install it: pip install {packages}"
        ) from error
