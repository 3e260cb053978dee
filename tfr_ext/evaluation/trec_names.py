"""Names of queries and documents in TREC files, where each is one word.

Blanks and control characters in them are written as %XX, see `text_files.encoded_name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfr_ext.data import text_files
from tfr_ext.data.lists import RankingLists


class QueryNames:
    """Names of queries as TREC files hold them, no two alike."""

    def __init__(self) -> None:
        """Begins without names."""
        self._owners: dict[str, str] = {}

    def __call__(self, names: Iterable[str]) -> list[str]:
        """Returns names as TREC files hold them; those of earlier calls may recur."""
        found = []
        for name in names:
            text_files.check_name(name, "the name of a query")
            encoded = text_files.encoded_name(name)
            owner = self._owners.setdefault(encoded, name)
            if owner != name:
                raise ValueError(
                    f"The queries {owner!r} and {name!r} would have the same name in "
                    f"TREC files, {encoded!r}. Rename one of them."
                )
            found.append(encoded)
        return found

    def check(self, lists: RankingLists) -> None:
        """Checks that TREC files can hold the names of lists, no two queries alike."""
        self(lists.query_ids)
        for name in lists.doc_ids or ():
            text_files.check_name(name, "the name of a document")


def item_names(lists: RankingLists) -> Sequence[str]:
    """Returns the items' own identifiers or, without any, `QUERY-POSITION` (from 1)."""
    if lists.doc_ids is not None:
        return lists.doc_ids
    return [
        f"{query}-{i + 1}"
        for query, length in zip(lists.query_ids, lists.lengths.tolist())
        for i in range(length)
    ]


def document_names(lists: RankingLists) -> list[str]:
    """Returns an identifier for each item as TREC files hold it, unique in its list.

    It is that of `item_names`, with its blanks encoded and repeated ones numbered.

    Raises:
        ValueError: If an item's own name is empty.
    """
    names: list[str] = []
    plain = [
        text_files.encoded_name(text_files.check_name(name, "the name of a document"))
        for name in item_names(lists)
    ]
    for start, end in zip(lists.row_splits, lists.row_splits[1:]):
        taken: set[str] = set()
        for own in plain[start:end]:
            name, count = own, 1
            while name in taken:
                count += 1
                name = f"{own}#{count}"
            taken.add(name)
            names.append(name)
    return names
