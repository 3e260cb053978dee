"""The interface of a source of lists, and of the pieces that it is divided into."""

from __future__ import annotations

import abc
import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfr_ext.core.settings import given
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.file_names import find_files
from tfr_ext.data.letor.byte_ranges import Survey
from tfr_ext.data.lists import RankingLists
from tfr_ext.evaluation import trec_names
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import long_lists

SPLITS = ("train", "valid", "test")
_CHUNK = 1 << 22


class Piece(abc.ABC):
    """Some lists of a split, next to each other, that one worker reads.

    It is sent to workers on other machines, so it can be pickled, and says where lists
    are instead of holding them.
    """

    @abc.abstractmethod
    def read(self, num_features: int | None) -> Iterator[RankingLists]:
        """Reads the lists, a few at a time.

        Args:
            num_features: width that they must have; None if any will do.

        Raises:
            ValueError: If the data has errors.
        """

    def survey(self, num_features: int | None) -> Survey:
        """Counts the lists; arguments and errors are those of `read`."""
        queries = width = 0
        has_doc_ids = True
        for lists in self.read(num_features):
            queries += lists.num_lists
            width = lists.num_features
            has_doc_ids &= lists.doc_ids is not None
        return Survey(queries, width, has_doc_ids)

    @abc.abstractmethod
    def locate(self, query_id: str) -> str:
        """Returns where a query is, for messages."""


@dataclasses.dataclass(frozen=True)
class Division:
    """A source in pieces.

    Attributes:
        pieces: the pieces of each split that the source has, in order.
        needs_width: whether pieces can only be read if the number of features is known.
    """

    pieces: Mapping[str, list[Piece]]
    files: list[str]
    needs_width: bool = False


class Source(abc.ABC):
    """A source of lists, which `dataset` names.

    Attributes:
        settings: names of the settings that only such a source has.
        is_drawn: whether a seed determines all lists.
        elwc_features: the names of the features in ELWC files, once these have been
            read; None for other files.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    is_drawn: ClassVar[bool] = False
    has_missing: ClassVar[bool] = False

    def __init__(self, config: DataConfig):
        """Begins with nothing read."""
        self.config = config
        self.elwc_features: ElwcFeatures | None = None
        self._names = trec_names.QueryNames()
        self._hash = hashlib.sha256()
        self._digested: set[str] = set()

    @classmethod
    def holds_out(cls, config: DataConfig) -> bool:
        """Returns whether 'valid' or 'test' is chosen at random."""
        return cls.is_drawn

    @property
    @abc.abstractmethod
    def splits(self) -> Collection[str]:
        """The members of `SPLITS` that it has.

        Queries of 'train' are held out for 'valid' and 'test' where they are missing.
        """

    def know(self, columns: Collection[str], spec: FeatureSpec | None) -> None:
        """Sets the columns and the categories that a model takes, by their names."""
        del columns, spec

    def read(self, split: str, num_features: int | None) -> RankingLists:
        """Reads a split.

        Args:
            split: one of `splits`.
            num_features: width that the lists must have; None if any will do.

        Raises:
            ValueError: If the data has errors, or another width.
            FileNotFoundError: If there is no such file.
        """
        lists = self._read(split, num_features)
        self._names.check(lists)
        if self._is_new(split):
            self._add_lists(lists)
        return lists

    @abc.abstractmethod
    def _read(self, split: str, num_features: int | None) -> RankingLists:
        """Reads a split, see `read`."""

    def check_stream(self) -> None:
        """Checks that training lists can be read anew in each epoch."""
        raise ValueError(
            "`stream` needs `dataset='elwc'`, which can be read again and again. "
            f"Received: {given('dataset', self.config.dataset)}."
        )

    def stream(self, split: str, num_features: int | None, transform: Any) -> Any:
        """Reads a split once, and returns `StreamedLists`, read again in each epoch.

        `transform` is a `PieceTransform`, which changes lists as they are read.
        """
        raise NotImplementedError

    def divide(self, piece_bytes: int) -> Division:
        """Divides all splits into pieces of about so many bytes of text or features."""
        raise NotImplementedError

    def digest(self) -> str:
        """Returns the SHA-256 digest of all splits, before labels are changed.

        It is that of the content, wherever it is. Splits that have not been read yet
        are read for it.
        """
        num_features = self.config.num_features
        for split in SPLITS:
            if split in {*self.splits} - self._digested:
                num_features = self._digest(split, num_features)
        found = self._hash.copy()
        # Runs choose the items, as the data itself does.
        add_files(found, [x for x, *_ in long_lists.stats(self.config.rerank_run)])
        return found.hexdigest()

    def _digest(self, split: str, num_features: int | None) -> int | None:
        """Adds a split to the digest, and returns its width if it is known."""
        return self.read(split, num_features).num_features

    def _is_new(self, split: str) -> bool:
        """Begins the part of the digest for a split, unless it has one."""
        if split in self._digested:
            return False
        self._digested.add(split)
        self._hash.update(split.encode())
        return True

    def _add_lists(self, lists: RankingLists) -> None:
        names = "\n".join(lists.query_ids)
        if lists.doc_ids is not None:
            names += "\n\n" + "\n".join(lists.doc_ids)
        self._hash.update(names.encode())
        for array in (
            lists.row_splits,
            lists.labels,
            lists.features,
            lists.label_distributions,
            lists.weights,
            lists.ids,
            lists.context_ids,
        ):
            if array is not None:
                self._hash.update(str((array.shape, array.dtype)).encode())
                self._hash.update(np.ascontiguousarray(array).data)

    def _reject_paths(self) -> None:
        """Checks that no files are named, for a source that has no use for them."""
        for split in SPLITS:
            if getattr(self.config, f"{split}_path"):
                raise ValueError(
                    f"`{split}_path` is given, but "
                    f"{given('dataset', self.config.dataset)} reads no files. Add "
                    "`dataset='text'`, `dataset='table'` or `dataset='elwc'`."
                )


class FileSource(Source):
    """A source that reads the files of `train_path` and so on."""

    has_missing = True
    _or = ""  # Alternatives to files, for messages.
    _needs_width = False  # See `Division`.

    @classmethod
    def holds_out(cls, config: DataConfig) -> bool:
        """Returns whether 'valid' or 'test' is chosen at random."""
        return not (config.valid_path and config.test_path)

    @property
    def splits(self) -> Collection[str]:
        """The splits for which files are named."""
        return [split for split in SPLITS if getattr(self.config, f"{split}_path")]

    def files(self, split: str) -> list[str]:
        """Returns the files of a split."""
        patterns = getattr(self.config, f"{split}_path")
        if not patterns:
            other = "" if self.config.test_path else " (or `test_path` to evaluate)"
            raise ValueError(
                f"{given('dataset', self.config.dataset)} needs `{split}_path`{other}"
                f"{self._or}."
            )
        return find_files(patterns)

    def divide(self, piece_bytes: int) -> Division:
        """Divides the files of all splits into pieces."""
        if "train" not in self.splits:
            dataset = given("dataset", self.config.dataset)
            raise ValueError(f"{dataset} needs `train_path`.")
        files = {split: self.files(split) for split in self.splits}
        pieces = {s: self._pieces(s, found, piece_bytes) for s, found in files.items()}
        return Division(pieces, sum(files.values(), []), self._needs_width)

    @abc.abstractmethod
    def _pieces(self, split: str, files: list[str], piece_bytes: int) -> list[Piece]:
        """Divides the files of a split; 'train' comes first."""


def settings_of(prefix: str) -> tuple[str, ...]:
    """Returns the names of the settings of data that begin so."""
    names = [field.name for field in dataclasses.fields(DataConfig)]
    return tuple(name for name in names if name.startswith(prefix))


def not_weighted(split: str, path: str, name: str) -> str:
    """Returns a line about lists that are not trained on and have no weights."""
    return f"{split}: {path} has no weights ({name!r}), which only the loss would use."


def slices(count: int, size: int, piece_bytes: int) -> list[tuple[int, int]]:
    """Cuts so many lists, of so many bytes together, into slices of equal number."""
    number = min(count, max(1, round(size / piece_bytes)))
    bounds = [count * i // max(1, number) for i in range(number + 1)]
    return list(zip(bounds, bounds[1:]))


def add_files(digest: hashlib._Hash, files: Collection[str]) -> None:
    """Adds the content of files to a digest."""
    for path in files:
        with tf.io.gfile.GFile(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
