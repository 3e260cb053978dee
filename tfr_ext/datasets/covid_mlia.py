"""COVID-19 MLIA with judgement distributions (Purpura, Silvello and Susto)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from absl import logging
from etils import epath

from tfr_ext import data
from tfr_ext.data import text_files
from tfr_ext.datasets import examples

_SCORES = "covid_mlia/docs_scores_by_qid.jsonl"
_JUDGEMENTS = "covid_mlia/qids_dids_labels.jsonl"
_NUM_FEATURES = 24
# The paper's weights of the grades, [-1, 0.5, 1], shifted and rescaled to 0..1.
_GRADE_VALUES = np.array([0.0, 0.75, 1.0], np.float32)
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_NUM_FOLDS = 5
# Fold k has its training queries in the parts k, k + 1 and k + 2, and so on.
_PARTS = {"train": (0, 1, 2), "vali": (3,), "test": (4,)}

# {topic: {document: numbers}}
_Table = Mapping[str, Mapping[str, list[float]]]


class CovidMlia(tfds.core.GeneratorBasedBuilder):
    """COVID-19 MLIA, five folds by topic."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First release."}
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name=f"fold{k}", description=f"Fold {k}, by topic.")
        for k in range(1, _NUM_FOLDS + 1)
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
The collection comes with the code of its paper, https://github.com/albpurpura/PLTR
(MLIA/data). Put docs_scores_by_qid.jsonl and qids_dids_labels.jsonl into
manual_dir/covid_mlia.
"""

    def _info(self) -> tfds.core.DatasetInfo:
        return examples.dataset_info(
            self,
            _NUM_FEATURES,
            num_grades=len(_GRADE_VALUES),
            description="""
English topics of COVID-19 MLIA (http://eval.covid19-mlia.eu) with the scores of 24
retrieval systems, and for each judged document the shares of its judges who gave it
the grades 0, 1 and 2.

`label_distribution` has the shares. `label` is the expected grade, with the values 0,
0.75 and 1 of the grades: the paper's weights -1, 0.5 and 1, shifted and rescaled to
0..1.

Only documents that have both scores and judgements are here, and only topics that have
such documents; the metadata count the others. Folds are by topic: all topics in
numerical order are dealt in turn into five parts, and fold k trains on the parts k,
k + 1 and k + 2, validates on k + 3 and tests on k + 4, cyclically.
""",
            citation="""
@article{purpura2022learning,
  author  = {Alberto Purpura and Gianmaria Silvello and Gian Antonio Susto},
  title   = {Learning to rank from relevance judgments distributions},
  journal = {Journal of the Association for Information Science and Technology},
  year    = {2022},
}
""",
            homepage="http://eval.covid19-mlia.eu",
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator]:
        scores_path, judgements_path = examples.find_files(
            self, dl_manager.manual_dir, [[_SCORES], [_JUDGEMENTS]]
        )
        scores = _read_table(scores_path, _NUM_FEATURES)
        judgements = _read_table(judgements_path, len(_GRADE_VALUES))
        _check_distributions(judgements, judgements_path)
        counts = _counts(scores, judgements)
        logging.warning(
            "covid_mlia: of %d judged documents %d have no scores, and of %d scored "
            "documents %d no judgements: those are left out, and with them those %d of "
            "%d topics that have no others.",
            counts["judged"],
            counts["judged_without_scores"],
            counts["scored"],
            counts["scored_without_judgements"],
            counts["topics_without_documents"],
            counts["topics"],
        )
        self.info.metadata.update(counts)
        topics = sorted(scores.keys() | judgements.keys(), key=_numerically)
        fold = int(self.builder_config.name[len("fold") :]) - 1
        return {
            split: self._generate_examples(
                [
                    topic
                    for i, topic in enumerate(topics)
                    if (i - fold) % _NUM_FOLDS in parts
                ],
                scores,
                judgements,
            )
            for split, parts in _PARTS.items()
        }

    def _generate_examples(
        self, topics: list[str], scores: _Table, judgements: _Table
    ) -> Iterator:
        for number, topic in enumerate(topics):
            documents = _usable(topic, scores, judgements)
            if not documents:
                continue
            shares = _rows(judgements[topic], documents)
            lists = data.RankingLists(
                features=_rows(scores[topic], documents),
                labels=shares @ _GRADE_VALUES,
                row_splits=np.array([0, len(documents)], np.int64),
                query_ids=[topic],
                doc_ids=documents,
                label_distributions=shares,
            )
            for _, example in examples.examples(lists):
                yield number, example


def _usable(topic: str, scores: _Table, judgements: _Table) -> list[str]:
    """Returns the documents with scores and judgements, in the order of the scores."""
    judged = judgements.get(topic, {})
    return [name for name in scores.get(topic, {}) if name in judged]


def _rows(table: Mapping[str, list[float]], documents: list[str]) -> np.ndarray:
    return np.array([table[name] for name in documents], np.float32)


def _counts(scores: _Table, judgements: _Table) -> dict[str, int]:
    """Counts the documents, and those that lack scores or judgements."""
    topics = scores.keys() | judgements.keys()
    usable = [len(_usable(topic, scores, judgements)) for topic in topics]
    scored = sum(map(len, scores.values()))
    judged = sum(map(len, judgements.values()))
    return {
        "topics": len(topics),
        "topics_without_documents": usable.count(0),
        "scored": scored,
        "scored_without_judgements": scored - sum(usable),
        "judged": judged,
        "judged_without_scores": judged - sum(usable),
    }


def _numerically(topic: str) -> tuple[int, str]:
    return (int(topic) if topic.isdecimal() else 0, topic)


def _read_table(path: epath.Path, width: int) -> _Table:
    """Reads `{topic: {document: [number, ...]}}`, and checks the format."""
    try:
        table = json.loads(text_files.read_text(str(path)))
    except (
        RecursionError,
        ValueError,
    ) as error:  # Raised for the text or for the JSON.
        raise data.DataFormatError(
            f"expected one JSON object. Found: {error}", str(path)
        ) from error
    if not isinstance(table, dict) or not all(
        isinstance(documents, dict) for documents in table.values()
    ):
        raise data.DataFormatError(
            "expected {topic: {document: [number, ...]}}", str(path)
        )
    for topic, documents in table.items():
        for document, values in documents.items():
            if (
                not isinstance(values, list)
                or len(values) != width
                or not all(
                    type(value) in (int, float) and abs(value) <= _FLOAT32_MAX
                    for value in values
                )
            ):
                raise data.DataFormatError(
                    f"topic {topic!r}, document {document!r}: expected {width} finite "
                    f"numbers. Found: {json.dumps(values)[:200]}",
                    str(path),
                )
    return table


def _check_distributions(judgements: _Table, path: epath.Path) -> None:
    """Checks that judgements are shares that sum to 1."""
    for topic, documents in judgements.items():
        for document, shares in documents.items():
            if min(shares) < 0 or abs(sum(shares) - 1) > 1e-3:
                raise data.DataFormatError(
                    f"topic {topic!r}, document {document!r}: expected shares that sum "
                    f"to 1. Found: {shares}",
                    str(path),
                )
