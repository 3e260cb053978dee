"""Builders of TFDS itself, for archives that the user has downloaded."""

from __future__ import annotations

import posixpath
from typing import Any

from tensorflow_datasets.ranking.istella import istella
from tensorflow_datasets.ranking.yahoo_ltrc import yahoo_ltrc

from tfr_ext.datasets import examples


class Istella(istella.Istella, skip_registration=True):  # type: ignore[call-arg]
    """Istella: the same data set, in the same place, as TFDS's `istella`."""

    name = "istella"
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
Istella is at http://quickrank.isti.cnr.it/istella-dataset/
Put the archives into manual_dir as they are, as far as you use them:
istella-letor.tar.gz for istella/main, istella-s-letor.tar.gz for istella/s and
istella-X.tar.gz for istella/x.
"""

    def _split_generators(self, dl_manager: Any) -> dict:
        return super()._split_generators(_LocalArchives(self, dl_manager))


class _LocalArchives:
    """A download manager that finds archives in `manual_dir` instead."""

    def __init__(self, builder: Istella, dl_manager: Any):
        self._builder = builder
        self._dl_manager = dl_manager

    def download_and_extract(self, url: str) -> Any:
        """Extracts the archive that the end of the address names."""
        (archive,) = examples.find_files(
            self._builder, self._dl_manager.manual_dir, [[posixpath.basename(url)]]
        )
        return self._dl_manager.extract(archive)


class YahooLtrc(  # type: ignore[call-arg]
    yahoo_ltrc.YahooLTRC, skip_registration=True
):
    """Yahoo! Learning to Rank Challenge: TFDS's, which names missing files."""

    name = "yahoo_ltrc"

    def _split_generators(self, dl_manager: Any) -> dict:
        examples.find_files(self, dl_manager.manual_dir, [["ltrc_yahoo.tar.bz2"]])
        return super()._split_generators(dl_manager)
