"""Are tokens and vectors those of Hugging Face?

    python benchmarks/text_parity.py FILE --encoder DIR --texts CORPUS.jsonl.gz ...

FILE is what `text_reference.py` wrote, with the same encoder and texts. It prints
whether the ids of all texts are equal, how many texts a second are divided into tokens,
and the largest difference of a number of the vectors of every 40th text.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfr_ext.core import which_keras  # noqa: E402
from tfr_ext.text import Encoder  # noqa: E402


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", type=pathlib.Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--texts", type=pathlib.Path, nargs="+", required=True)
    given = parser.parse_args()
    expected = json.loads(given.reference.read_text())
    texts = []
    for path in given.texts:
        with gzip.open(path, "rt") as file:
            texts += [json.loads(line)["text"] for line in file]
    encoder = Encoder.load(given.encoder)
    encoder.tokenizer(tf.constant(texts[:10]))
    start = time.monotonic()
    ids = []
    for place in range(0, len(texts), 1_000):
        ids += encoder.tokenizer(tf.constant(texts[place : place + 1_000])).to_list()
    seconds = time.monotonic() - start
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    difference = np.abs(encoder.embed(texts[::40]) - np.array(expected["vectors"]))
    print(
        f"TensorFlow {tf.__version__}, {which_keras.name()} against "
        f"{expected['versions']}: ids of {len(texts):,} texts are "
        f"{'equal' if digest == expected['digest'] else 'NOT equal'}, "
        f"{len(texts) / seconds:,.0f} texts a second; {len(difference):,} vectors "
        f"differ by {difference.max():.1e} at most"
    )


if __name__ == "__main__":
    main()
