"""The collections that come as folds of LETOR text: LETOR 4.0, MSLR-WEB and OHSUMED."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from absl import logging
from etils import epath

from tfr_ext import data
from tfr_ext.core import messages
from tfr_ext.datasets import examples

# LETOR 4.0 and MSLR-WEB use the first names, LETOR 3.0 the second.
_FILES = {
    "train": ("train.txt", "trainingset.txt"),
    "vali": ("vali.txt", "validationset.txt"),
    "test": ("test.txt", "testset.txt"),
}
_LETOR4 = """
@article{qin2013letor4,
  author  = {Tao Qin and Tie-Yan Liu},
  title   = {Introducing {LETOR} 4.0 Datasets},
  journal = {CoRR},
  volume  = {abs/1306.2597},
  year    = {2013},
}
"""


@dataclasses.dataclass
class FoldConfig(tfds.core.BuilderConfig):
    """One fold of a collection, with its files in `directory`, below `manual_dir`."""

    directory: str = ""
    num_features: int = 0


def folds(prefix: str, directory: str, num_features: int, of: str) -> list[FoldConfig]:
    """Returns the configurations of the five folds of a collection."""
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
    """A builder from `FoldN/train.txt`, `vali.txt` and `test.txt`."""

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
        with messages.without_logged("NULL values by nan"):  # They are not, in the end.
            lists = data.read_letor(path, self.builder_config.num_features, np.nan)
        missing = np.isnan(lists.features)  # The text itself has no other NaN.
        count = int(missing.sum())
        if count:
            lists.features[missing] = 0
            logging.warning("%s: %s NULL values become 0.", path, f"{count:,}")
        self.info.metadata[f"{split}_null_values"] = count
        yield from examples.examples(lists)


class Letor4(LetorFolds):
    """LETOR 4.0 (Qin and Liu, 2013): the Million Query tracks of 2007 and 2008.

    Supervised ranking, rank aggregation and listwise ranking, five folds each.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        config
        for year, rankings in (("2007", 21), ("2008", 25))
        for config in (
            *folds(
                f"mq{year}_",
                f"MQ{year}",
                46,
                f"MQ{year}, supervised ranking (QueryLevelNorm)",
            ),
            *folds(
                f"mq{year}agg_",
                f"MQ{year}-agg",
                rankings,
                f"MQ{year}-agg, rank aggregation of {rankings} rankings",
            ),
            *folds(
                f"mq{year}list_",
                f"MQ{year}-list",
                46,
                f"MQ{year}-list, listwise ranking",
            ),
        )
    ]
    DESCRIPTION = """
LETOR 4.0: queries of the Million Query tracks of TREC 2007 and 2008 on the .GOV2 pages.

- `mq2007_*`, `mq2008_*`: 46 features, normalised by query; labels 0, 1 and 2.
- `mq2007agg_*`, `mq2008agg_*`: a feature is the rank that one of 21 or 25 systems gave
  the document, where it gave one (`NULL`, which is 0, where not).
- `mq2007list_*`, `mq2008list_*`: 46 features; the label is the degree of relevance in
  the ground truth order, the higher the better, up to the length of the list.

Documents are named by the `docid` of the comments.
"""
    CITATION = _LETOR4
    HOMEPAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/letor-4-0/"
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"""
LETOR 4.0 is at {HOMEPAGE}
Unpack MQ2007.rar, MQ2008.rar and so on, so that manual_dir has MQ2008/Fold1/train.txt,
vali.txt and test.txt, and likewise for MQ2007, MQ2007-agg, MQ2008-agg, MQ2007-list and
MQ2008-list, as far as you use them.
"""


# TFDS has a builder of this name, which downloads from a dead address.
class MslrWeb(LetorFolds, skip_registration=True):  # type: ignore[call-arg]
    """MSLR-WEB10K and MSLR-WEB30K (Qin and Liu, 2013), five folds each."""

    # Above the versions of TFDS's builder: both keep their data in the same directory.
    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {"2.0.0": "From local files; float32, names of documents."}
    BUILDER_CONFIGS = [
        *folds("10k_", "MSLR-WEB10K", 136, "MSLR-WEB10K"),
        *folds("30k_", "MSLR-WEB30K", 136, "MSLR-WEB30K"),
    ]
    DESCRIPTION = """
MSLR-WEB: about 10,000 and 30,000 queries of a web search engine, 136 features that
are not normalised, labels 0 to 4.

The files do not name documents: a document is called by its query and its position, as
in `17-1`.
"""
    CITATION = _LETOR4
    HOMEPAGE = "https://www.microsoft.com/en-us/research/project/mslr/"
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"""
MSLR-WEB is at {HOMEPAGE}
Unpack MSLR-WEB10K.zip into manual_dir/MSLR-WEB10K and MSLR-WEB30K.zip into
manual_dir/MSLR-WEB30K, as far as you use them, so that there are
MSLR-WEB10K/Fold1/train.txt, vali.txt and test.txt, and so on.
"""


class Ohsumed(LetorFolds):
    """OHSUMED of LETOR 3.0 (Qin, Liu, Xu and Li, 2010): three versions, five folds."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        *folds("", "OHSUMED/QueryLevelNorm", 45, "OHSUMED, normalised by query"),
        *folds("min_", "OHSUMED/Feature-min", 45, "OHSUMED, NULL as the least value"),
        *folds("null_", "OHSUMED/Feature-null", 45, "OHSUMED, with NULL values"),
    ]
    DESCRIPTION = """
OHSUMED of LETOR 3.0: 106 queries on MEDLINE abstracts, 45 features, labels 0, 1 and 2.

- `fold1` to `fold5`: QueryLevelNorm, features from 0 to 1 within each query.
- `min_*`: Feature-min, raw features; a value that cannot be computed is the least of
  its feature within the query.
- `null_*`: Feature-null, raw features; a value that cannot be computed (`NULL`) is 0.

Documents are named by the `docid` of the comments.
"""
    CITATION = """
@article{qin2010letor,
  author  = {Tao Qin and Tie-Yan Liu and Jun Xu and Hang Li},
  title   = {{LETOR}: A benchmark collection for research on learning to rank for
             information retrieval},
  journal = {Information Retrieval},
  volume  = {13},
  number  = {4},
  pages   = {346--374},
  year    = {2010},
}
"""
    HOMEPAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/letor-3-0/"
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"""
LETOR 3.0 is at {HOMEPAGE}
Unpack OHSUMED.rar, so that manual_dir has OHSUMED/QueryLevelNorm/Fold1/trainingset.txt,
validationset.txt and testset.txt (or train.txt, vali.txt and test.txt), and likewise
OHSUMED/Feature-min and OHSUMED/Feature-null, as far as you use them.
"""
