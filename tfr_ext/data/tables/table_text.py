"""Reads the text of tables by rows, with pandas, and by lines, for messages."""

from __future__ import annotations

import csv
import importlib
import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.tables import frames, row_arrays
from tfr_ext.data.tables.frames import Columns

# Texts that stand for a missing number. (A query may well be called NA.)
_MISSING = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A"]


def read_frames(
    path: str,
    separator: str,
    found: Sequence[str],
    columns: Columns,
    rows: int | None,
) -> Iterator[Any]:
    """Reads text as pandas.DataFrames.

    Args:
        path: the file.
        separator: what separates its cells.
        found: the names of its columns.
        columns: what the columns mean; columns of names are read as texts.
        rows: number of rows of each frame, except the last; all if left out.

    Raises:
        DataFormatError: if it is not a table.
    """
    pandas = imported("pandas")
    names = [name for name in (columns.query, columns.doc_id) if name is not None]
    wrong = (
        UnicodeDecodeError,
        pandas.errors.ParserError,
        pandas.errors.ParserWarning,
    )
    with text_files.open_unpacked(path) as file:
        try:
            reader = pandas.read_csv(
                file,
                sep=separator,
                header=0,
                names=list(found),
                index_col=False,
                dtype={name: str for name in names},
                keep_default_na=False,
                na_values={name: _MISSING for name in found if name not in names},
                encoding="utf-8-sig",
                float_precision="round_trip",
                low_memory=False,  # Otherwise one column may have two types.
                iterator=True,
            )
            cells = itertools.islice(read_rows(path, separator), 1, None)
            frame = None
            while frame is None or (rows is not None and len(frame) == rows):
                with warnings.catch_warnings():
                    # It would drop the surplus cells of a line.
                    warnings.simplefilter("error", pandas.errors.ParserWarning)
                    frame = reader.read(rows)
                if rows is not None:  # Then pandas does not count those of all rows.
                    for line, row in itertools.islice(cells, len(frame)):
                        _check_count(path, line, row, len(found))
                if len(frame):
                    yield frame
        except StopIteration:  # The last rows were as many as all before.
            return
        except wrong as error:
            raise _parser_error(path, separator, len(found), error) from None


def with_numbers(frame: Any, columns: Columns) -> Any:
    """Returns a frame whose columns are numbers where they have to be.

    Args:
        frame: one that `read_frames` gave.
        columns: what its columns mean.

    Raises:
        RowError: if a value is not a number.
    """
    hints = {name: "" for name in (columns.label, columns.weight) if name is not None}
    hints |= dict.fromkeys(columns.features or (), row_arrays.WITHOUT_TEXT)
    return frame.assign(
        **{name: _as_numbers(frame[name], hint) for name, hint in hints.items()}
    )


def _as_numbers(series: Any, of_text: str) -> Any:
    """Returns a column as numbers; pandas reads all as texts if one is another text.

    Raises:
        RowError: if a value is not a number.
    """
    pandas = imported("pandas")
    if pandas.api.types.is_numeric_dtype(series.dtype):
        return series
    numbers = pandas.to_numeric(series, errors="coerce")
    wrong = (numbers.isna() & ~series.isna()).to_numpy()
    if wrong.any():
        frames.numbers(series.where(wrong), of_text)  # It raises the error.
    return numbers


def read_rows(path: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the line at which each row begins, and its cells, without blank rows.

    Raises:
        DataFormatError: if the text is not UTF-8 or not a table.
    """
    lines = (f"{text}\n" for _, text in text_files.read_lines(path))
    rows = csv.reader(lines, delimiter=separator)
    first = 1
    try:
        for row in rows:
            if row and (len(row) > 1 or row[0].strip()):
                yield first, row
            first = rows.line_num + 1
    except csv.Error as error:
        raise DataFormatError(f"expected a table: {error}", path, first) from None


def _parser_error(
    path: str, separator: str, count: int, error: Exception
) -> DataFormatError:
    """Returns the error for a text that pandas refuses."""
    for line, row in read_rows(path, separator):
        _check_count(path, line, row, count)
    return DataFormatError(f"expected a table: {str(error).strip()}", path)


def _check_count(path: str, line: int, row: Sequence[str], count: int) -> None:
    """Raises a DataFormatError if a row has more cells than there are columns."""
    if len(row) > count:
        raise DataFormatError(
            f"expected {count} cells, one for each name of a column. Found: {len(row)}",
            path,
            line,
        )


def imported(name: str) -> Any:
    """Returns an optional module.

    Raises:
        ImportError: if it is missing; the message says how to install it.
    """
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
