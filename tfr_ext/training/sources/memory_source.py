"""A source of lists that are in memory already."""

from __future__ import annotations

from tfr_ext.core.settings import given
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.lists import RankingLists
from tfr_ext.training.data_config import DataConfig
from tfr_ext.training.sources.data_splits import Splits
from tfr_ext.training.sources.source import SPLITS

# Settings of where lists are read from.
_PLACES = ("dataset", "data_dir", "manual_dir", "stream")


class MemorySource:
    """Splits that the caller has read or made; a `Source`.

    Attributes:
        original: these splits.
    """

    splits = SPLITS

    def __init__(self, config: DataConfig, splits: Splits):
        """Checks that the settings do not name other lists.

        Args:
            config: settings of the data.
            splits: the lists, all in memory.

        Raises:
            ValueError: if a setting names where to read lists, or `splits` does not
                hold its training lists in memory.
        """
        for name in (*_PLACES, *(f"{split}_path" for split in SPLITS)):
            value = getattr(config, name)
            if value != getattr(DataConfig(), name):
                raise ValueError(
                    f"{given(name, value)} has no effect, because `splits` has the "
                    f"lists. Leave out `{name}` or `splits`."
                )
        if isinstance(splits.train, StreamedLists):
            raise ValueError(
                "`splits.train` must be RankingLists, which are in memory. Received: "
                "StreamedLists."
            )
        self.original = splits
        self.elwc_features = splits.elwc_features

    def read(self, split: str, num_features: int | None) -> RankingLists:
        """See `Source`."""
        lists: RankingLists = getattr(self.original, split)
        if num_features not in (None, lists.num_features):
            raise ValueError(
                f"`splits.{split}` must have {num_features} features. Received: "
                f"{lists.num_features}."
            )
        return lists
