"""TREC run and qrels files, written so that trec_eval ranks as we do.

trec_eval orders by score, read as a 32-bit float, and breaks ties by document
identifier; here ties go by position. Where scores tie, the later ones are therefore
lowered in the run file by the least steps of a 32-bit float that make them distinct.
"""

from __future__ import annotations

import os

import numpy as np

from tfr_ext.data.lists import RankingLists


def document_names(lists: RankingLists) -> list[str]:
    """Returns an identifier for each item, unique within its list.

    The collection's own where it has them (without blanks, repetitions numbered), else
    the query's and the position counted from 1.
    """
    names = []
    for q, query in enumerate(lists.query_ids):
        start, end = lists.row_splits[q], lists.row_splits[q + 1]
        if lists.doc_ids is None:
            names += [f"{query}-{i + 1}" for i in range(end - start)]
            continue
        taken: set[str] = set()
        for own in lists.doc_ids[start:end]:
            name = plain = "".join(own.split())
            count = 1
            while name in taken:
                count += 1
                name = f"{plain}#{count}"
            taken.add(name)
            names.append(name)
    return names


def write_run(path: str, lists: RankingLists, scores: np.ndarray, tag: str) -> None:
    """Writes a TREC run: `query Q0 document rank score tag`, best first.

    Args:
        path: the file.
        lists: the scored lists.
        scores: one finite score per item, `[num_items]`.
        tag: name of the run, without blanks.
    """
    names = document_names(lists)
    lowest = np.float32(-np.inf)
    with open(path, "w", encoding="utf-8") as file:
        for q, query in enumerate(lists.query_ids):
            start, end = lists.row_splits[q], lists.row_splits[q + 1]
            row = np.asarray(scores[start:end], np.float32)
            last = np.float32(np.inf)
            for rank, i in enumerate(np.argsort(-row, kind="stable"), 1):
                last = min(row[i], np.nextafter(last, lowest))
                file.write(f"{query} Q0 {names[start + i]} {rank} {last:.9g} {tag}\n")


def write_qrels(path: str, lists: RankingLists) -> bool:
    """Writes TREC relevance judgements: `query 0 document grade`.

    Args:
        path: the file.
        lists: the judged lists.

    Returns:
        False if the labels are not integers, as the format wants: then there is no
        such file afterwards.
    """
    if (lists.labels != np.floor(lists.labels)).any():
        if os.path.exists(path):
            os.remove(path)
        return False
    names = document_names(lists)
    with open(path, "w", encoding="utf-8") as file:
        for q, query in enumerate(lists.query_ids):
            for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
                file.write(f"{query} 0 {names[i]} {int(lists.labels[i])}\n")
    return True
