"""LETOR 4.0: the Million Query tracks of TREC 2007 and 2008 (Qin and Liu, 2013)."""

from __future__ import annotations

import tensorflow_datasets as tfds

from tfr_ext.datasets.letor_folds import LetorFolds, folds


class Builder(LetorFolds):
    """Supervised ranking, rank aggregation and listwise ranking, five folds each."""

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
    CITATION = """
@article{qin2013letor4,
  author  = {Tao Qin and Tie-Yan Liu},
  title   = {Introducing {LETOR} 4.0 Datasets},
  journal = {CoRR},
  volume  = {abs/1306.2597},
  year    = {2013},
}
"""
    HOMEPAGE = "https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/letor-4-0/"
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"""
LETOR 4.0 is at {HOMEPAGE}
Unpack MQ2007.rar, MQ2008.rar and so on, so that manual_dir has MQ2008/Fold1/train.txt,
vali.txt and test.txt, and likewise for MQ2007, MQ2007-agg, MQ2008-agg, MQ2007-list and
MQ2008-list, as far as you use them.
"""
