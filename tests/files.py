"""Files that tests of several folders write and read."""

import json
import random
import unicodedata

import numpy as np
import tensorflow as tf

# How many features the lists of `write_text` have.
WIDTH = 6


def content(directory):
    """The bytes of all files below a directory, by their relative paths."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def in_files(name):
    """The name as TREC files hold it, letter by letter."""
    return "".join(
        "".join(f"%{byte:02X}" for byte in letter.encode())
        if letter.isspace()
        or unicodedata.category(letter) == "Cc"
        or (i == 0 and letter == "\ufeff")  # A byte order mark, where a file begins.
        else letter
        for i, letter in enumerate(name)
    )


def write_letor(path, lists):
    """Writes lists as LETOR text, with the names of documents."""
    with open(path, "w") as file:
        for q in range(lists.num_lists):
            for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
                features = " ".join(
                    f"{j}:{x:.6f}" for j, x in enumerate(lists.features[i], 1)
                )
                file.write(
                    f"{lists.labels[i]:g} qid:{lists.query_ids[q]} {features} "
                    f"#docid = D{i}\n"
                )


def write_text(path, seed, queries=30, named=True):
    """Writes queries of very different length, with blank lines and comments."""
    rng = random.Random(seed)
    lines = ["\ufeff# A title: 1 qid:7 1:1\n"]
    for q in range(queries):
        for i in range(rng.choice([1, 1, 2, 5, 40])):
            chosen = sorted(rng.sample(range(1, WIDTH + 1), rng.randint(0, WIDTH)))
            pairs = " ".join(f"{k}:{rng.uniform(-3, 3):.3g}" for k in chosen)
            name = f" #docid = D{q}-{i}" if named else ""
            lines.append(f"{rng.randint(0, 4)} qid:{q} {pairs}{name}\n")
            if rng.random() < 0.2:
                lines.append(rng.choice(["\n", "# qid:3\n", " \t \n"]))
    end = rng.choice(["", "\r"])
    text = "".join(lines).replace("\n", end + "\n")
    path.write_bytes(text.rstrip("\r\n").encode() + rng.choice([b"", b"\n"]))
    return str(path)


def write_run(directory, values, queries=None, convention=None, history="", **report):
    """Writes the files of a finished run that a comparison reads."""
    directory.mkdir(parents=True, exist_ok=True)
    lengths = {len(column) for column in values.values()}
    queries = queries or [f"q{i}" for i in range(*lengths)]
    lines = ["\t".join(["query", *values])]
    for i, query in enumerate(queries):
        cells = [column[i] for column in values.values()]
        lines.append(
            "\t".join([query, *("" if np.isnan(c) else f"{c:.9g}" for c in cells)])
        )
    (directory / "per_query.tsv").write_text("\n".join(lines) + "\n")
    report = {"convention": convention or {"gain": "linear"}, **report}
    (directory / "metrics.json").write_text(json.dumps(report))
    if history:
        (directory / "history.tsv").write_text(history)
    return str(directory)


def event_values(directory, tag):
    """The values of a tag in the event files anywhere below a directory, by step."""
    values = {}
    for path in directory.rglob("events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == tag:
                    values[event.step] = float(tf.make_ndarray(value.tensor))
    return [values[step] for step in sorted(values)]


def damages(data, number):
    """Yields what may become of the bytes of a file."""
    rng = random.Random(1)
    yield from (b"", data + data, data[:-1], data + b"\n", bytes(len(data)))
    for i in range(number - 5):
        damaged, (a, b) = bytearray(data), rng.sample(range(len(data)), 2)
        if i % 3 == 0:
            damaged[a] ^= 1 << rng.randrange(8)
        elif i % 3 == 1:
            damaged[a : a + 64], damaged[b : b + 64] = (
                data[b : b + 64],
                data[a : a + 64],
            )
        yield data[:a] if i % 3 == 2 else bytes(damaged)
