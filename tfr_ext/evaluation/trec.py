"""TREC run and qrels files, written so that trec_eval ranks as we do.

trec_eval orders by score, read as a 32-bit float, and breaks ties by document
identifier, whereas here ties are broken by position. If scores tie, the later ones are
therefore lowered in the run file by the smallest steps of a 32-bit float that make them
distinct.

Names are words there, as `trec_names` encodes them. Readers decode nothing, and encode
what another program did not; names of lists are encoded before they are joined with a
file.

A line that begins with `#` is a comment, as in trec_eval 10, unless its fields are
those of the file: a name may begin with `#` too.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import decimals
from tfr_ext.core.files import text_file
from tfr_ext.data import text_files
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation.trec_names import QueryNames, document_names

_RUN = "`query Q0 document rank score tag` with a finite score"
# The highest integer below which a 32-bit float holds all.
_HIGHEST_GRADE = 1 << 24
_QRELS = f"`query 0 document grade` with an integer grade up to {_HIGHEST_GRADE}"
# From here on, numbers become infinite as 32-bit floats.
_INFINITE = 2.0**128 - 2.0**103
# The second field of a line, and the rank, of which comments have other words.
_COUNT = re.compile(r"Q?[0-9]+")
_QRELS_OF_BEIR = _QRELS.replace(" 0", "")


def write_run(path: str, lists: RankingLists, scores: np.ndarray, tag: str) -> None:
    """Writes a TREC run: `query Q0 document rank score tag`, best first.

    Args:
        path: the file.
        lists: the scored lists.
        scores: one score per item, `[num_items]`, finite as a 32-bit float, or minus
            infinity for an item that is not retrieved and is left out.
        tag: name of the run, without blanks.

    Raises:
        ValueError: If the name of a query is empty or becomes that of another, or the
            name of the run is empty or has blanks.
    """
    lines = run_lines(lists, scores, tag)
    with text_file(path) as file:
        file.writelines(lines)


def run_lines(
    lists: RankingLists, scores: np.ndarray, tag: str, topn: int | None = None
) -> Iterator[str]:
    """Returns the lines that `write_run` writes, at most `topn` of each list."""
    tag = text_files.encoded_name(text_files.check_word(tag, "the name of the run"))
    queries, names = QueryNames()(lists.query_ids), document_names(lists)
    splits = lists.row_splits.tolist()

    def lines() -> Iterator[str]:
        for query, start, end in zip(queries, splits, splits[1:]):
            given = np.asarray(scores[start:end])
            # In the order of the given scores, which may have a higher precision.
            order = best_first(given)[:topn]
            order = order[given[order] > -np.inf]
            falling = _falling(given[order].astype(np.float32)).tolist()
            for rank, (i, score) in enumerate(zip(order.tolist(), falling), 1):
                yield f"{query} Q0 {names[start + i]} {rank} {score:.9g} {tag}\n"

    return lines()


def best_first(scores: np.ndarray) -> np.ndarray:
    """Returns the positions of a list's items by falling score, ties by position.

    Examples:
        >>> best_first(np.array([0.5, 2.0, 0.5])).tolist()
        [1, 0, 2]
    """
    return np.argsort(-scores, kind="stable")


def _falling(scores: np.ndarray) -> np.ndarray:
    """Lowers scores that never rise by the smallest steps that make all fall."""
    lowest = np.float32(-np.inf)
    if (np.diff(scores) < 0).all():
        return scores
    last, falling = np.float32(np.inf), []
    for score in scores:
        last = min(score, np.nextafter(last, lowest))
        falling.append(last)
    return np.array(falling, np.float32)


def write_qrels(path: str, lists: RankingLists) -> bool:
    """Writes TREC relevance judgements: `query 0 document grade`.

    Args:
        path: the file.
        lists: the judged lists.

    Returns:
        False if the labels are not integers, as the format requires; the file does not
        exist then.

    Raises:
        ValueError: If the name of a query is empty or becomes that of another.
    """
    queries = QueryNames()(lists.query_ids)
    if (lists.labels != np.floor(lists.labels)).any():
        if os.path.exists(path):
            os.remove(path)
        return False
    names = document_names(lists)
    with text_file(path) as file:
        for q, query in enumerate(queries):
            for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
                file.write(f"{query} 0 {names[i]} {int(lists.labels[i])}\n")
    return True


@dataclasses.dataclass(frozen=True)
class TrecRun:
    """The content of a TREC run file.

    Attributes:
        documents: the score of each document of each query.
        tag: the name of the run, from the first line.
    """

    documents: Mapping[str, Mapping[str, float]]
    tag: str

    @functools.cached_property
    def encoded(self) -> Mapping[str, Mapping[str, float]]:
        """`documents`, by the names that queries and documents of lists have in files.

        Raises:
            ValueError: If two queries, or two documents of one, have the same name.
        """
        return _encoded(self.documents)

    def missing(self, lists: RankingLists) -> list[str]:
        """Returns the judged queries that the run lacks."""
        queries = lists.query_ids
        names = zip(queries, QueryNames()(queries))
        return [query for query, name in names if name not in self.encoded]

    def unjudged(self, *several: RankingLists) -> list[str]:
        """Returns the queries of the run that no lists judge."""
        names = QueryNames()
        judged = {name for lists in several for name in names(lists.query_ids)}
        names_of = zip(self.documents, self.encoded)
        return [query for query, name in names_of if name not in judged]

    def only(self, several: Iterable[RankingLists]) -> TrecRun:
        """Returns the run without documents that judged lists do not have.

        Args:
            several: the lists, none of whose queries is in two of them. Other queries
                of the run stay as they are.
        """
        documents = dict(self.encoded)
        queries = QueryNames()
        for lists in several:
            names, splits = document_names(lists), lists.row_splits
            for query, start, end in zip(queries(lists.query_ids), splits, splits[1:]):
                if query in documents:
                    own, found = set(names[start:end]), documents[query]
                    documents[query] = {d: s for d, s in found.items() if d in own}
        return TrecRun(documents, self.tag)

    def ranked(self, lists: RankingLists) -> tuple[RankingLists, np.ndarray]:
        """Joins the run with judgements, to evaluate it as trec_eval does.

        Items rank by score and, if scores tie, by document name, the greatest first.
        Documents without a judgement count as irrelevant. Judged documents that the run
        lacks are not retrieved, and score minus infinity.

        Args:
            lists: the judged lists; their documents are named by `document_names`.

        Returns:
            The lists, each followed by its unjudged documents from the run, without
            features; and their float64 scores `[num_items]`, which are minus the rank.
        """
        joined, (scores,) = with_runs(lists, [self])
        names = joined.doc_ids
        assert names is not None
        ranks = np.full(len(scores), -np.inf)
        for start, end in zip(joined.row_splits, joined.row_splits[1:]):
            found = [i for i in range(start, end) if scores[i] > -np.inf]
            found.sort(key=lambda i: (scores[i], names[i]), reverse=True)
            ranks[found] = -np.arange(1.0, len(found) + 1)
        return joined, ranks


def _encoded(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Returns values of documents of queries by the names that files have for both."""
    queries = QueryNames()(found)
    return {
        query: _encoded_documents(query, values)
        for query, values in zip(queries, found.values())
    }


def _encoded_documents(query: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    together = "".join(values)
    if together.isascii() and together.isprintable() and " " not in together:
        return values
    found = dict(zip(map(text_files.encoded_name, values), values.values()))
    if len(found) < len(values):
        raise ValueError(
            f"Two documents of query {query!r} differ only in how blanks in their "
            "names are written."
        )
    return found


def with_runs(
    lists: RankingLists, runs: Sequence[TrecRun]
) -> tuple[RankingLists, np.ndarray]:
    """Joins judged lists with the documents of runs.

    Args:
        lists: the judged lists; their documents are named by `document_names`.
        runs: the runs. Queries that are not judged are left out.

    Returns:
        The lists, each followed by the documents that are only in runs, by name, which
        count as irrelevant, without features; and the scores `[runs, items]`, minus
        infinity where a run lacks a document.
    """
    names = document_names(lists)
    labels, lengths, all_names = [], [], []
    scores: list[list[float]] = [[] for _ in runs]
    for q, query in enumerate(QueryNames()(lists.query_ids)):
        items = slice(lists.row_splits[q], lists.row_splits[q + 1])
        retrieved = [run.encoded.get(query, {}) for run in runs]
        own = names[items]
        unjudged = sorted(set().union(*retrieved) - set(own))
        here = [*own, *unjudged]
        all_names += here
        lengths.append(len(here))
        labels += [*lists.labels[items], *[0.0] * len(unjudged)]
        for found, documents in zip(scores, retrieved):
            found += [documents.get(name, -np.inf) for name in here]
    joined = RankingLists(
        features=np.zeros([len(labels), 0], np.float32),
        labels=np.array(labels, np.float32),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]),
        query_ids=lists.query_ids,
        doc_ids=all_names,
    )
    return joined, np.array(scores).reshape(len(runs), len(labels))


def read_run(path: str, lists: RankingLists | None = None) -> TrecRun:
    """Reads a TREC run.

    Args:
        path: the file, with lines `query Q0 document rank score tag`, compressed with
            gzip or not; scores are read as 32-bit floats. Ranks, and words after the
            tag, are ignored.
        lists: judged lists, at least one of which the run must have.

    Returns:
        The run, with names and tag as `trec_names` encodes them.

    Raises:
        ValueError: If a line has another form or a NUL byte, a score that is not a
            finite decimal number, or a document that its query already has (the message
            names the file and the line), if two names differ only in how blanks are
            written, or if no query of the run is judged.
        OSError: If the file cannot be read.
    """
    first_tag = ""

    def score(line: str, cells: list[str]) -> float | None:
        nonlocal first_tag
        query, middle, _, rank, text, tag = cells[:6]
        found = decimals.parse_number(text)
        # Words after the tag may be another line, after one that ends with CR.
        if not abs(found) < _INFINITE or (len(cells) > 6 and "\r" in line):
            return None
        if query[0] == "#" and not (
            _COUNT.fullmatch(middle) and _COUNT.fullmatch(rank)
        ):
            return None
        first_tag = first_tag or tag
        return float(np.float32(found))

    documents = _read(path, _RUN, score)
    found = TrecRun(documents, text_files.encoded_name(first_tag))
    if lists is not None and len(found.missing(lists)) == lists.num_lists:
        raise ValueError(f"{path}: no query of the run is among the judged queries.")
    return found


def read_qrels(path: str) -> RankingLists:
    r"""Reads TREC relevance judgements as lists without features.

    Args:
        path: the file, with lines `query 0 document grade`, or as BEIR has them;
            compressed with gzip or not. Grades below 0 become 0, as in trec_eval.

    Returns:
        The lists, with names as `trec_names` encodes them.

    Raises:
        ValueError: If a line has another form or a NUL byte, a grade that is not an
            integer or beyond 2**24, or a document that its query already has (the
            message names the file and the line), if two names differ only in how blanks
            are written, or if there is no line.
        OSError: If the file cannot be read.

    Examples:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "qrels.trec")
        >>> with open(path, "w") as file:
        ...     _ = file.write("# pooled\nq1 0 a 2\nq1 0 b 0\nq2 0 a 1\n")
        >>> lists = read_qrels(path)
        >>> lists.query_ids, lists.doc_ids, lists.labels.tolist()
        (['q1', 'q2'], ['a', 'b', 'a'], [2.0, 0.0, 1.0])
    """
    known: dict[str, int] = {}

    def grade(line: str, cells: list[str]) -> int | None:
        query, middle, _, text = cells
        if text not in known:
            known[text] = decimals.parse_integer(text, _HIGHEST_GRADE)
        return None if query[0] == "#" and not _COUNT.fullmatch(middle) else known[text]

    judged = _read(path, _QRELS, grade)
    if not judged:
        raise ValueError(f"{path}: expected at least one judgement. Found: none.")
    labels = [label for of_query in judged.values() for label in of_query.values()]
    return RankingLists(
        features=np.zeros([len(labels), 0], np.float32),
        labels=np.maximum(np.array(labels, np.float32), 0),
        row_splits=np.cumsum([0, *map(len, judged.values())]),
        query_ids=list(judged),
        doc_ids=[document for of_query in judged.values() for document in of_query],
    )


def _read(
    path: str, expected: str, value_of: Callable[[str, list[str]], Any]
) -> dict[str, Mapping[str, Any]]:
    """Returns a value of each document of each query, by their encoded names.

    Of a line and its words, `value_of` returns None or raises a ValueError if they are
    not as expected, and may then be a comment.
    """
    found: dict[str, dict[str, Any]] = {}
    for number, line in text_files.read_lines(path):
        cells = text_files.words(line)
        if (number, expected, cells) == (1, _QRELS, ["query-id", "corpus-id", "score"]):
            expected, cells = _QRELS_OF_BEIR, []
        if not cells:
            continue
        if expected == _QRELS_OF_BEIR:
            cells.insert(1, "0")
        try:
            value = value_of(line, cells)
        except ValueError:
            value = None
        if value is None and cells[0].startswith("#"):
            continue
        if value is None:
            hint = "\nIf this is JSON of ranx, save it as TREC: save(PATH, kind='trec')"
            raise ValueError(
                f"{path}:{number}: expected {expected}. Found: {line.strip()[:60]!r}"
                + hint * line.lstrip().startswith("{")  # As ranx writes it by default.
            )
        query, _, name = cells[:3]
        documents = found.setdefault(query, {})
        if name in documents:
            raise ValueError(
                f"{path}:{number}: document {name!r} comes twice for query {query!r}."
            )
        documents[name] = value
    try:
        return _encoded(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
