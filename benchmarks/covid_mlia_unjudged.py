"""What do documents that nobody judged do to figures on COVID-19 MLIA?

    python benchmarks/covid_mlia_unjudged.py --data DIR

DIR has the collection's two files. Ranks the documents of each topic by each of the 24
retrieval scores alone: only those that were judged, and all that have scores, those
without a judgement as irrelevant. Prints the mean of P@1 and P@5 over the 24, and the
best of them. A document is relevant from an expected grade of 0.5 up.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import numpy as np

GRADES = np.array([0.0, 0.75, 1.0])


def read(path: pathlib.Path) -> dict:
    """Returns the only JSON object of a file."""
    with open(path, encoding="utf-8") as file:
        return json.loads(file.readline())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    folder = parser.parse_args().data
    scores = read(folder / "docs_scores_by_qid.jsonl")
    judged = read(folder / "qids_dids_labels.jsonl")
    relevant = {
        topic: {doc: float(GRADES @ shares) >= 0.5 for doc, shares in docs.items()}
        for topic, docs in judged.items()
    }
    shown = []
    for only_judged in (True, False):
        values = []
        for feature in range(24):
            per_topic = []
            for topic, docs in scores.items():
                known = relevant.get(topic, {})
                ranked = sorted(
                    (doc for doc in docs if doc in known or not only_judged),
                    key=lambda doc: -docs[doc][feature],  # noqa: B023 (used at once)
                )
                if ranked:
                    found = [known.get(doc, False) for doc in ranked]
                    per_topic.append([float(found[0]), float(np.mean(found[:5]))])
            values.append(np.mean(per_topic, axis=0))
        shown.append((only_judged, len(per_topic), np.array(values)))
    print(
        f"{'':<22}{'topics':>8}{'P@1 mean':>10}{'best':>8}{'P@5 mean':>10}{'best':>8}"
    )
    for only_judged, topics, table in shown:
        name = "judged documents" if only_judged else "all with scores"
        (mean_1, mean_5), (best_1, best_5) = table.mean(axis=0), table.max(axis=0)
        print(
            f"{name:<22}{topics:>8}{mean_1:>10.3f}{best_1:>8.3f}{mean_5:>10.3f}"
            f"{best_5:>8.3f}"
        )


if __name__ == "__main__":
    main()
