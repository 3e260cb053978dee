"""Reads tables from files: CSV, JSON lines and Parquet."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import decimals, messages
from tfr_ext.data import text_files
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import TEXT_WORDS
from tfr_ext.data.file_names import Paths, find_files
from tfr_ext.data.growing_rows import concatenate
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import frames, row_arrays, table_text
from tfr_ext.data.tables.frames import Columns
from tfr_ext.data.tables.row_arrays import RowError

# Chosen by the end of a file's name; what is packed is recognised by content.
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".jsonl": table_text.LINES}
_PARQUET = (".parquet", ".pq")
_NUMBER = re.compile(decimals.NUMBER.decode())


def read_table(
    paths: Paths,
    label: str | None,
    query: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    doc_id: str | None = None,
    missing: bool = False,
    categories: Sequence[str] = (),
    texts: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    context: Sequence[str] = (),
    text_words: int = TEXT_WORDS,
    embedding_inputs: bool = False,
) -> RankingLists:
    r"""Reads tables into memory, one row per item.

    The end of a file's name gives its format. `.csv` and `.tsv`, compressed or not,
    have the names of the columns in the first line; `.parquet` has them itself. The
    lines of `.jsonl` are JSON objects, of which the first one has all names.

    Args:
        paths: a path, a pattern such as `data/*.parquet`, several of them separated by
            commas, or an iterable of those, on any file system that `tf.io.gfile`
            knows. The files that a pattern matches are read in sorted order.
        label: column of the labels; None if nothing is judged.
        query: column of the queries. The rows of a query must be next to each other, in
            one file.
        features: columns of the features, in order; by default, all other columns that
            have numbers in the first file. Other files may have them in another order.
            A UserWarning names columns that look like numbers but are not, and a value.
        weight: column of the weights.
        doc_id: column of the names of the items.
        missing: whether features may be missing, such as empty cells, and are then NaN.
        categories: columns of names, see `RankingLists.from_dataframe`. In text, they
            are whole numbers if all cells of the first file are, such as 7 or 7.0, or
            else texts as they stand, such as 007 or NA; an empty cell is missing.
        texts: columns of texts, see `RankingLists.from_dataframe`.
        embeddings: columns of lists of numbers, in Parquet or JSON lines, see
            `RankingLists.from_dataframe`.
        context: features, of any kind, that have one value a list.
        text_words: how many words of a text are used.
        embedding_inputs: see `RankingLists.from_dataframe`.

    Raises:
        DataFormatError: If a file lacks one of these columns, a value is wrong, or the
            rows of a query are not next to each other. The message names the file, the
            row (counted from 0, as in pandas) and the line.
        FileNotFoundError: If a path or pattern matches no file.
        ImportError: If pandas, or PyArrow for Parquet, is missing.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "clicks.csv")
        >>> with open(path, "w") as file:
        ...     _ = file.write("query,price,clicked\nhat,9,1\nhat,12.5,0\n")
        >>> lists = read_table(path, label="clicked", query="query")
        >>> lists.features.tolist(), lists.query_ids
        ([[9.0], [12.5]], ['hat'])
    """
    columns = Columns(
        *(label, query, features, weight, doc_id, missing),
        *(categories, texts, embeddings, context, text_words, embedding_inputs),
    )
    with messages.issuing_warnings():
        return concatenate(read_files(find_files(paths), columns))


def read_files(
    files: Sequence[str], columns: Columns, rows: int | None = None
) -> Iterator[RankingLists]:
    """Yields the lists of tables that are read one by one.

    If the features are not given, they are those of the first file. `rows` is the
    number of rows that are read at a time, so that memory is needed only for these, for
    the longest list, and for the names of the queries; in Parquet, at least a row
    group. Lists are yielded as soon as they are complete. Without `rows`, all rows of a
    file are read at once.
    """
    first: dict[str, str] = {}
    for path in files:
        for lists in _pieces(path, columns, rows):
            columns = columns.of(lists)
            for query in lists.query_ids:
                if first.setdefault(query, path) != path:
                    raise DataFormatError(
                        f"query {query!r} is also in {first[query]}; expected the rows "
                        "of a query next to each other in one file",
                        path,
                    )
            yield lists


def read_file(path: str, columns: Columns) -> RankingLists:
    """Reads a table as a whole."""
    (lists,) = _pieces(path, columns, None)
    return lists


def column_names(path: str) -> list[str]:
    """Returns the names of the columns of a table."""
    table_text.imported("pandas")
    separator = _separator(path)
    if separator is None:
        with _parquet(path) as parquet:
            return parquet.schema_arrow.names
    if text_files.is_pipe(path):
        raise DataFormatError(
            "expected a file that can be read twice, not a pipe", path
        )
    return table_text.read_header(path, separator)[0]


def _pieces(path: str, columns: Columns, rows: int | None) -> Iterator[RankingLists]:
    """Yields the lists of a table, of about `rows` rows at a time."""
    found = column_names(path)
    row_before = 0
    begun: dict[str, int] = {}
    try:
        frames.check_columns(found, columns.used)
        if columns.categories and columns.spec is None and rows is not None:
            # Only all rows tell what a category is.
            columns = columns.of(read_file(path, columns))
        parts = _read_frames(path, found, columns, rows)
        for frame in parts if rows is None else _whole_lists(parts, columns.query):
            lists = RankingLists.from_frame(frame, columns, begun, row_before)
            columns = columns.of(lists)
            row_before += len(frame)
            yield lists
    except RowError as error:
        row = row_before + error.row
        separator = _separator(path)
        line = None if separator is None else table_text.line_of(path, separator, row)
        raise DataFormatError(f"row {row}: {error.problem}", path, line) from error
    except DataFormatError:
        raise
    except ValueError as error:
        hint = ""
        if _separator(path) is not None and any(map(_NUMBER.fullmatch, found)):
            hint = " The first line must name the columns."
        raise DataFormatError(f"{error}{hint}", path) from error
    if not row_before:
        raise DataFormatError("the table has no rows", path)


def _whole_lists(parts: Iterable[Any], query: str) -> Iterator[Any]:
    """Cuts frames again, between lists."""
    pandas = table_text.imported("pandas")
    begun: list[Any] = []  # The rows of a list that may go on.
    for part in parts:
        queries = part[query].to_numpy()
        kind = pandas.api.types.infer_dtype(part[query], skipna=False)
        if queries.dtype == object and kind != "string":  # Such as 7 and "7".
            queries = np.array([*map(_as_name, queries)], object)
        starts = np.flatnonzero(queries[1:] != queries[:-1]) + 1
        if begun and _as_name(begun[-1][query].iloc[-1]) != _as_name(queries[0]):
            starts = np.concatenate([[0], starts])
        if len(starts):
            yield pandas.concat([*begun, part.iloc[: starts[-1]]], ignore_index=True)
            begun = []
        begun.append(part.iloc[starts[-1] if len(starts) else 0 :])
    if begun:
        yield pandas.concat(begun, ignore_index=True)


def _as_name(value: Any) -> str:
    try:
        return row_arrays.as_text(value)
    except ValueError:  # `row_arrays.names` refuses it.
        return str(value)


def _read_frames(
    path: str, found: Sequence[str], columns: Columns, rows: int | None
) -> Iterator[Any]:
    """Reads a table as pandas.DataFrames with the columns that are needed."""
    separator = _separator(path)
    if separator is not None:
        yield from table_text.read_frames(path, separator, columns, rows)
        return
    wanted = list(found)
    if columns.features is not None:
        wanted = [*columns.others, *columns.features]
    with _parquet(path) as parquet:
        parts = (
            [parquet.read(columns=wanted)]
            if rows is None
            else (
                batch
                for group in range(parquet.num_row_groups)  # All at once would be held.
                for batch in parquet.iter_batches(rows, [group], wanted)
            )
        )
        for part in parts:
            part.validate(full=True)  # Damaged texts may not be UTF-8.
            if len(part):
                # The index of a frame is a column in the file; as floats, long ids
                # beside missing ones would be others.
                exact = bool(columns.categories or columns.texts)
                yield part.to_pandas(ignore_metadata=True, integer_object_nulls=exact)


def _separator(path: str) -> str | None:
    """Returns the separator of the cells of a text file; None for Parquet."""
    name = re.sub(r"\.(gz|bz2|xz)$", "", path)
    for ending, separator in _SEPARATORS.items():
        if name.endswith(ending):
            return separator
    if path.endswith(_PARQUET):
        return None
    endings = ", ".join([*_SEPARATORS, *_PARQUET])
    raise DataFormatError(
        f"expected a name that ends in {endings} (.gz, .bz2 or .xz may follow)", path
    )


@contextlib.contextmanager
def _parquet(path: str) -> Iterator[Any]:
    """Opens a Parquet file."""
    arrow, module = (
        table_text.imported("pyarrow"),
        table_text.imported("pyarrow.parquet"),
    )
    with text_files.open_binary(path) as file:
        try:
            yield module.ParquetFile(file, page_checksum_verification=True)
        # Damaged pages are an OSError without a number.
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DataFormatError(f"expected a Parquet file: {error}", path) from error
