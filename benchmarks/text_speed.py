"""Is BERT as fast here as in sentence-transformers? And an export as in the process?

    python benchmarks/text_speed.py --encoder DIR --texts CORPUS.jsonl.gz \
        --queries QUERIES.jsonl.gz --table TABLE --peer_python PYTHON

PYTHON has sentence-transformers and PyTorch. Both embed the same 640 texts, which both
sort by length, and both take the same steps of a cross-encoder: 8 lists of 4 pairs of
up to 128 tokens, softmax cross-entropy, Adam, dropout of 0.1 and all. Both have two
threads and float32. It prints the median of five rounds in turn of the peer's seconds
over ours, and the time of an export of the encoder over that of the encoder in
the process.

Of a linear model that is trained on TABLE (of `tfr-ext embed`), it prints the median
time of a request of 100 documents: exported with the encoder for the query alone, and
for the documents too.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402

from tfr_ext.core import which_keras  # noqa: E402
from tfr_ext.models.ranking_model import RankingModel  # noqa: E402
from tfr_ext.text import Encoder  # noqa: E402
from tfr_ext.text.pairs import PairScorer, pair_tokens  # noqa: E402

ROUNDS, LISTS, SIZE, LENGTH, STEPS = 5, 8, 4, 128, 4


def lines(path: pathlib.Path) -> list[str]:
    """Returns the texts of JSON lines."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line)["text"] for line in file]


def seconds(work: Callable[[], object]) -> float:
    """Returns how long something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def requests(table: pathlib.Path, encoder: str) -> None:
    """Prints what a request of 100 documents takes, with both exports."""
    frame = pd.read_parquet(table)
    names = ("document", "document_embedding", "query", "score")
    of_query = frame[frame["query_id"] == frame["query_id"].iloc[0]].head(100)
    found = {name: of_query[name].tolist() for name in names}
    with tempfile.TemporaryDirectory() as folder:

        def command(name: str, *flags: str) -> None:
            subprocess.run(
                [sys.executable, "-m", f"pipelines.{name}", *flags],
                check=True,
                stdout=subprocess.DEVNULL,
            )

        command(
            *("train", "--dataset=table", f"--train_path={table}", "--model=linear"),
            *("--valid_fraction=.2", "--test_fraction=.2", "--feature_columns=score"),
            "--embedding_columns=query_embedding,document_embedding",
            *("--context_columns=query_embedding", "--num_epochs=1"),
            f"--model_dir={folder}/run",
        )
        for name, more in (("embedding", []), ("document", ["--embed_documents"])):
            path = f"{folder}/{name}"
            given = [f"--model_dir={folder}/run", f"--export_dir={path}"]
            command("export", *given, f"--encoder={encoder}", *more)
            (version,) = pathlib.Path(path).iterdir()
            score = tf.saved_model.load(str(version)).signatures["serving_default"]
            given_documents = "document" if more else "document_embedding"
            request = {
                "float_features": [[[x] for x in found["score"]]],
                "query": found["query"][:1],
                given_documents: [np.array(found[given_documents]).tolist()],
            }
            tensors = {key: tf.constant(x) for key, x in request.items()}
            times = [seconds(functools.partial(score, **tensors)) for _ in range(60)]
            longest = max(len(x) for x in found["document"])
            print(
                f"100 documents of up to {longest} characters, by their {name}: median "
                f"{1e3 * statistics.median(times):.1f} ms"
            )


def main() -> None:
    """Prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--texts", type=pathlib.Path, required=True)
    parser.add_argument("--queries", type=pathlib.Path, required=True)
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--peer_python", required=True)
    given = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(2)
    every = lines(given.texts)
    texts, queries = every[:: len(every) // 640][:640], lines(given.queries)
    rng = np.random.default_rng(0)
    pairs = LISTS * SIZE
    batches = [
        [
            (queries[int(rng.integers(len(queries)))], every[int(i)])
            for i in rng.integers(len(every), size=pairs)
        ]
        for _ in range(STEPS)
    ]
    labels = rng.integers(SIZE, size=LISTS)
    encoder = Encoder.load(given.encoder)
    model = RankingModel(
        {"tokens": (x := tf.keras.Input([None, LENGTH], dtype="int32", name="tokens"))},
        PairScorer(encoder.bert, LENGTH)(x),
    )
    loss = tf.keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(2e-5), loss, jit_compile=False)
    tokens = [
        pair_tokens(
            tf.constant([query for query, _ in batch]),
            tf.constant([text for _, text in batch]),
            *(encoder.tokenizer, LENGTH, 1, (64, LENGTH)),
        )
        for batch in batches
    ]

    def train() -> None:
        for of_batch in tokens:
            lists = tf.reshape(of_batch, [LISTS, SIZE, LENGTH])
            model.train_on_batch({"tokens": lists}, tf.one_hot(labels, SIZE))

    content = {
        "texts": texts,
        "batches": batches,
        "labels": labels.tolist(),
        "length": LENGTH,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "texts.json")
        path.write_text(json.dumps(content))
        module = tf.Module()
        module.weights = [
            x if which_keras.IS_KERAS_2 else x.value for x in encoder.bert.variables
        ]
        served = tf.function(
            encoder, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )
        tf.saved_model.save(module, folder, signatures={"serving_default": served})
        exported = tf.saved_model.load(folder).signatures["serving_default"]
        some = [tf.constant(texts[i : i + 32]) for i in range(0, 160, 32)]
        name = next(iter(exported.structured_input_signature[1]))
        here = os.path.dirname(__file__)
        with subprocess.Popen(
            [given.peer_python, f"{here}/text_peer.py", given.encoder, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as peer:
            assert peer.stdin and peer.stdout
            peer.stdout.readline()

            def ask(what: str) -> float:
                assert peer.stdin and peer.stdout
                print(what, file=peer.stdin, flush=True)
                return float(peer.stdout.readline())

            ratios: dict[str, list[float]] = {"embed": [], "train": [], "export": []}
            for number in range(ROUNDS + 1):  # The first is left out.
                found = {
                    "embed": ask("embed") / seconds(lambda: encoder.embed(texts)),
                    "train": ask("train") / seconds(train),
                    "export": seconds(lambda: [exported(**{name: x}) for x in some])
                    / seconds(lambda: [served(x) for x in some]),
                }
                for what, ratio in found.items():
                    ratios[what] += [ratio] * (number > 0)
    print(f"TensorFlow {tf.__version__}, {which_keras.name()}")
    for what, several in ratios.items():
        over = (
            "export / in the process" if what == "export" else "peer's seconds / ours"
        )
        print(
            f"{what:<7}{over:<26}{statistics.median(several):.2f} "
            f"({min(several):.2f} to {max(several):.2f})"
        )
    requests(given.table, given.encoder)


if __name__ == "__main__":
    main()
