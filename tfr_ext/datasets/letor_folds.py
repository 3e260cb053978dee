"""The builder of collections that come as folds of LETOR text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from absl import logging
from etils import epath

from tfr_ext import data
from tfr_ext.core import telling
from tfr_ext.datasets import examples

# LETOR 4.0 and MSLR-WEB use the first names, LETOR 3.0 the second.
_FILES = {
    "train": ("train.txt", "trainingset.txt"),
    "vali": ("vali.txt", "validationset.txt"),
    "test": ("test.txt", "testset.txt"),
}


@dataclasses.dataclass
class FoldConfig(tfds.core.BuilderConfig):
    """One fold of a collection.

    Attributes:
        directory: where its files are, below `manual_dir`.
        num_features: number of features.
    """

    directory: str = ""
    num_features: int = 0


def folds(prefix: str, directory: str, num_features: int, of: str) -> list[FoldConfig]:
    """Returns the configurations of the five folds of a collection.

    Args:
        prefix: what the names begin with.
        directory: directory of the collection, below `manual_dir`.
        num_features: number of features.
        of: what the collection is, in words.
    """
    return [
        FoldConfig(
            name=f"{prefix}fold{fold}",
            description=f"Fold {fold} of {of}.",
            directory=f"{directory}/Fold{fold}",
            num_features=num_features,
        )
        for fold in range(1, 6)
    ]


class LetorFolds(  # type: ignore[call-arg]
    tfds.core.GeneratorBasedBuilder, skip_registration=True
):
    """A builder from `FoldN/train.txt`, `vali.txt` and `test.txt`.

    Attributes:
        DESCRIPTION: the collection, in words.
        CITATION: BibTeX of its paper.
        HOMEPAGE: where it comes from.
    """

    DESCRIPTION = ""
    CITATION = ""
    HOMEPAGE = ""

    def _info(self) -> tfds.core.DatasetInfo:
        return examples.dataset_info(
            self,
            self.builder_config.num_features,
            description=self.DESCRIPTION,
            citation=self.CITATION,
            homepage=self.HOMEPAGE,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
        directory = self.builder_config.directory
        paths = examples.find_files(
            self,
            dl_manager.manual_dir,
            [[f"{directory}/{name}" for name in _FILES[split]] for split in _FILES],
        )
        return {
            split: self._generate_examples(split, path)
            for split, path in zip(_FILES, paths)
        }

    def _generate_examples(self, split: str, path: epath.Path) -> Iterator:
        with telling.without_logged("NULL values by nan"):  # They are not, in the end.
            lists = data.read_letor(path, self.builder_config.num_features, np.nan)
        missing = np.isnan(lists.features)  # The text itself has no other NaN.
        count = int(missing.sum())
        if count:
            lists.features[missing] = 0
            logging.warning("%s: %s NULL values become 0.", path, f"{count:,}")
        self.info.metadata[f"{split}_null_values"] = count
        yield from examples.examples(lists)
