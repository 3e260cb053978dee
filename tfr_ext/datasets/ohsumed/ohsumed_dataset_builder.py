"""OHSUMED as of LETOR 3.0 (Qin, Liu, Xu and Li, 2010)."""

from __future__ import annotations

import tensorflow_datasets as tfds

from tfr_ext.datasets.letor_folds import LetorFolds, folds


class Builder(LetorFolds):
    """OHSUMED in its three versions, five folds each."""

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
