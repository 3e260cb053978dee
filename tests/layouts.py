"""Tiny files of our own, laid out as the collections are."""

import io
import json
import tarfile

import numpy as np

SPLITS = {"train": 3, "vali": 1, "test": 2}


def letor_text(split, num_features, comments=True, num_queries=None):
    """Lists of one to three documents, different in each split."""
    lines = []
    for q in range(num_queries or SPLITS[split]):
        for i in range(1 + q % 3):
            value = len(split) + q + 0.25 * i
            lines.append(
                f"{i} qid:{split[0]}{q} 1:{value} {num_features}:{-value}"
                + (f" #docid = GX-{q}-{i} inc = 1" if comments else "")
            )
    return "\n".join(lines) + "\n"


def write_fold(directory, num_features, names=None, comments=True):
    """Writes the three files of a fold."""
    directory.mkdir(parents=True)
    for split in SPLITS:
        name = f"{split}.txt" if names is None else names[split]
        (directory / name).write_text(letor_text(split, num_features, comments))


def write_archive(path, texts):
    """Writes a compressed archive of texts, by the names of its files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
        for name, text in texts.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))


def write_covid(directory):
    """Writes seven topics, of which '40' has no judged document with scores."""
    rng = np.random.default_rng(0)
    topics = ["1", "2", "3", "10", "20", "30", "40"]
    scores = {
        topic: {f"d{i}": rng.normal(size=24).tolist() for i in range(4)}
        for topic in topics
    }
    judgements = {
        topic: {
            f"d{i}": (counts / counts.sum()).tolist()
            for i in (3, 1)
            for counts in [rng.integers(1, 9, 3)]
        }
        for topic in topics
    }
    judgements["2"]["unscored"] = [0.0, 0.5, 0.5]
    judgements["40"] = {"unscored": [1.0, 0.0, 0.0]}
    (directory / "covid_mlia").mkdir(parents=True)
    for name, table in (
        ("docs_scores_by_qid", scores),
        ("qids_dids_labels", judgements),
    ):
        (directory / "covid_mlia" / f"{name}.jsonl").write_text(json.dumps(table))
    return scores, judgements
