"""Do brands and words help where they decide? A generated shop, and who ranks it best.

    pip install lightgbm catboost
    python benchmarks/shop.py tuned --output FILE [--truths NAMES] [--columns NAMES]
    python benchmarks/shop.py compare --output FILE [--tuned FILE]
        [--queries N] [--truths NAMES] [--columns NAMES]
    python benchmarks/shop.py costs

In each list a query meets 20 products, of which a third are of the type that it names.
The grades, 0 to 4, are those of one of four truths:

*   `numbers`: the rating, and how far the price is from what the device's users pay.
*   `few`: these, and what each of 20 brands is worth, which depends on the device.
*   `many`: the same with 20,000 brands, whose frequencies follow Zipf's law.
*   `match`: the last, and whether a product is of the query's type and has its
    attributes. Titles say so, with synonyms half of the time, amid words of no meaning.

`compare` fits `Ranker`, LightGBM (lambdarank) and CatBoost (YetiRank) with the columns
`numbers`, `categories` (brand and device too) and `match` (title and query too), at
their defaults: three seeds on 5,000 queries, and `match` on 20,000; the test has 2,000
queries. `--columns shared`, of `Ranker` alone, are `categories` and the numbers of
shared words that trees get, without the words. With `--tuned`, it does so for the
settings that `tuned` chose. `tuned` tries 20 random settings of each on 2,000 queries
of one seed, and keeps the best of another 1,000; nobody sees the test. The best lines
of its file, with the mean in place of the values, are `shop_settings.csv`. Trees stop
at their best of 20 % of the queries, as `Ranker` does. The intervals are those of
paired differences over the queries (95 %, bootstrap), a query's value being its mean
over the seeds.

`costs` prints an epoch, the memory, the export and the median of a request of 20
products to gRPC's signature in the process, without a server, at 100,000 queries.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

import tfr_ext  # noqa: E402
from tfr_ext import evaluation  # noqa: E402
from tfr_ext.data import RankingLists  # noqa: E402
from tfr_ext.models.texts import NUM_MATCHES  # noqa: E402
from tfr_ext.models.trees import category_codes  # noqa: E402

TRUTHS = ("numbers", "few", "many", "match")
COLUMNS = {
    "numbers": ["price", "rating"],
    "categories": ["price", "rating", "brand", "device"],
    "match": ["price", "rating", "brand", "device", "title", "words"],
}
SHARED = [f"shared {number}" for number in range(NUM_MATCHES)]
CATEGORIES, TEXTS, CONTEXT = (
    ["brand", "device"],
    ["title", "words"],
    ["device", "words"],
)
SIZE, TYPES, ATTRIBUTES, NOISE = 20, 60, 40, 2_000
DEVICES = ("phone", "tablet", "web")


def zipf(count: int) -> np.ndarray:
    """Probabilities of Zipf's law."""
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


def shop(truth: str, queries: int, seed: int) -> pd.DataFrame:
    """Draws lists; what brands and words mean is the same for every seed."""
    world = np.random.default_rng(7)
    worth = world.normal(size=20_000)
    by_device = world.normal(0, 0.7, size=[20_000, len(DEVICES)])
    rng, n = np.random.default_rng(seed), queries * SIZE
    brands = 20 if truth in ("numbers", "few") else 20_000
    query = np.repeat(np.arange(queries), SIZE)
    device = rng.integers(len(DEVICES), size=queries)
    wanted = rng.choice(TYPES, queries, p=zipf(TYPES))
    kind = np.where(
        rng.random(n) < 1 / 3, wanted[query], rng.choice(TYPES, n, p=zipf(TYPES))
    )
    asked = rng.integers(ATTRIBUTES, size=[queries, 2])
    num_asked = rng.integers(3, size=queries)
    has = rng.integers(ATTRIBUTES, size=[n, 3])
    kept = rng.random(n) < 0.4  # These have the first attribute that is asked for.
    has[:, 0] = np.where(kept, asked[query, 0], has[:, 0])
    brand = rng.choice(brands, n, p=zipf(brands))
    price, rating = rng.normal(size=n), rng.normal(size=n)

    utility = 0.8 * rating - 0.6 * np.abs(price - (device[query] - 1))
    if truth != "numbers":
        utility += worth[brand] + by_device[brand, device[query]]
    if truth == "match":
        utility += 2.0 * (kind == wanted[query])
        for place in range(2):
            met = (has == asked[query, place][:, np.newaxis]).any(axis=1)
            utility += 0.7 * (met & (num_asked[query] > place))
    utility += rng.normal(0, 0.5, n)
    grades = np.searchsorted(np.quantile(utility, [0.5, 0.75, 0.9, 0.97]), utility)

    # Half of the words are synonyms of what is meant.
    stems = np.column_stack([kind, has + TYPES, rng.integers(NOISE, size=[n, 4])])
    order = rng.permuted(np.tile(np.arange(8), [n, 1]), axis=1)
    synonym, length = rng.integers(2, size=[n, 8]), rng.integers(5, 9, n)
    titles = [
        " ".join(
            spelt(stems[i, k], k > 3, synonym[i, k]) for k in order[i] if k < count
        )
        for i, count in enumerate(length)
    ]
    meant = np.column_stack([wanted, asked + TYPES])
    synonym = rng.integers(2, size=meant.shape)
    words = [
        " ".join(
            spelt(meant[q, k], False, synonym[q, k]) for k in range(1 + num_asked[q])
        )
        for q in range(queries)
    ]
    return pd.DataFrame(
        {
            "query": query,
            "price": np.exp(price),
            "rating": rating,
            "brand": [f"brand {x}" for x in brand],
            "device": np.array(DEVICES)[device][query],
            "title": titles,
            "words": np.array(words, object)[query],
            "label": grades,
        }
    )


def spelt(stem: int, is_noise: bool, synonym: int) -> str:
    """Returns a word."""
    return f"w{stem}" if is_noise else f"x{stem}{'ab'[synonym]}"


Scores = np.ndarray


def network(
    columns: str, seed: int, train: pd.DataFrame, test: pd.DataFrame, **settings: Any
) -> Scores:
    """`Ranker`."""
    if columns == "shared":
        codes = category_codes.Codes.learnt(lists_of(train, "match"))
        train, test = (with_shared(frame, codes) for frame in (train, test))
        names = ["query", *COLUMNS["categories"], *SHARED]
    else:
        names = ["query", *COLUMNS[columns]]
    ranker = tfr_ext.Ranker(
        query="query",
        categories=[x for x in names if x in CATEGORIES],
        texts=[x for x in names if x in TEXTS],
        context=[x for x in names if x in CONTEXT],
        random_state=seed,
        verbose=0,
        **settings,
    ).fit(train[names], train["label"])
    return ranker.predict(test[names])


def with_shared(
    frame: pd.DataFrame, codes: category_codes.Codes | None
) -> pd.DataFrame:
    """Returns a frame with what trees get of its texts."""
    numbers = category_codes.rows(lists_of(frame, "match"), codes)
    first = len(COLUMNS["numbers"])
    return frame.assign(**dict(zip(SHARED, numbers[:, first:].T)))


def lists_of(frame: pd.DataFrame, columns: str) -> RankingLists:
    """Returns a frame as lists, with some of its columns."""
    names = COLUMNS[columns]
    return RankingLists.from_dataframe(
        frame[["query", "label", *names]],
        "label",
        "query",
        categories=[x for x in names if x in CATEGORIES],
        texts=[x for x in names if x in TEXTS],
        context=[x for x in names if x in CONTEXT],
    )


def trees(objective: str) -> Callable[..., Scores]:
    """Returns what trains LightGBM or CatBoost."""

    def scores(
        columns: str,
        seed: int,
        train: pd.DataFrame,
        test: pd.DataFrame,
        **settings: Any,
    ) -> Scores:
        from tfr_ext import gbm
        from tfr_ext.sources.data_splits import Splits

        held = train["query"] % 5 == 0
        parts = (lists_of(train[~held], columns), lists_of(train[held], columns))
        with tempfile.TemporaryDirectory() as folder:
            config = gbm.GbmConfig(
                objective=objective,
                model_dir=folder,
                draw_curves=False,
                early_stopping_patience=20,
                data=tfr_ext.training.DataConfig(seed=seed),
                **settings,
            )
            model = gbm.train(config, Splits(*parts, parts[1])).model
            return model.score_lists(lists_of(test, columns))

    return scores


METHODS: dict[str, Callable[..., Scores]] = {
    "Ranker": network,
    "LightGBM": trees("lambdarank"),
    "CatBoost": trees("yetirank"),
}


def drawn_settings(method: str, number: int) -> dict[str, Any]:
    """Returns random settings of a method."""
    rng = np.random.default_rng([METHOD_NUMBERS[method], number])

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    if method == "Ranker":
        return {
            "learning_rate": float(10 ** rng.uniform(-4, -2)),
            "hidden_sizes": one((64, 32), (256, 128), (512, 256)),
            "dropout": one(0.0, 0.2, 0.4),
            "batch_size": one(32, 128),
            "loss": one("smoothi_loss", "list_net_loss", "pirank_ndcg_loss"),
        }
    given = {
        "learning_rate": float(10 ** rng.uniform(-2, -0.5)),
        "min_data_in_leaf": one(5, 20, 100),
        "leaf_l2": one(1.0, 3.0, 10.0),
        "num_trees": 500,
    }
    if method == "CatBoost":
        del given["min_data_in_leaf"]
        return {**given, "max_depth": one(4, 6, 8)}
    return {
        **given,
        "num_leaves": one(15, 31, 63),
        "feature_fraction": one(0.5, 0.8, 1.0),
    }


METHOD_NUMBERS = {name: number for number, name in enumerate(METHODS)}


def ndcg(test: pd.DataFrame, scores: Scores) -> np.ndarray:
    """NDCG@10 of each query."""
    return evaluation.per_query(lists_of(test, "numbers"), scores, ["ndcg_10"])[
        "ndcg_10"
    ]


class Results:
    """A file with a line for each fit, so that a run that was killed goes on."""

    def __init__(self, path: str):
        """Initialises it; the file need not be there."""
        self._path = pathlib.Path(path)

    def read(self) -> Iterator[tuple[tuple[str, ...], list[float]]]:
        """Yields what was fitted, and its value for each query."""
        if self._path.exists():
            with self._path.open() as file:
                for row in csv.reader(file):
                    yield tuple(row[:6]), [*map(float, row[6].split())]

    def measure(
        self,
        truth: str,
        columns: str,
        name: str,
        number: int,
        frames: tuple[pd.DataFrame, pd.DataFrame],
        settings: dict[str, Any],
        seed: int,
    ) -> None:
        """Fits a method to the first frame, and adds a line, unless it is there."""
        train, test = frames
        queries = len(train) // SIZE
        key = (truth, columns, name, str(number), str(queries), json.dumps(settings))
        if any(key == each for each, _ in self.read()):
            return
        start = time.monotonic()
        values = ndcg(test, METHODS[name](columns, seed, train, test, **settings))
        seconds = time.monotonic() - start
        with self._path.open("a", newline="") as file:
            text = " ".join(f"{value:.5f}" for value in values)
            csv.writer(file).writerow([*key, text])
        print(*key, f"{values.mean():.4f} {seconds:.0f} s", flush=True)


def tuned(results: Results, truths: list[str], of_columns: list[str]) -> None:
    """Tries 20 settings of each method."""
    for truth in truths:
        frames = shop(truth, 2_000, 101), shop(truth, 1_000, 102)
        for number, columns, name in itertools.product(range(20), of_columns, METHODS):
            settings = drawn_settings(name, number)
            results.measure(truth, columns, name, number, frames, settings, 1)


def chosen(results: Results) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Returns the best settings that `tuned` tried."""
    best: dict[tuple[str, str, str], tuple[float, str]] = {}
    for (truth, columns, name, _, _, settings), values in results.read():
        key = truth, columns, name
        best[key] = max(best.get(key, (0.0, "{}")), (float(np.mean(values)), settings))
    return {key: json.loads(settings) for key, (_, settings) in best.items()}


def compare(
    results: Results,
    queries: int,
    settings: dict,
    truths: list[str],
    of_columns: list[str],
) -> None:
    """Fits and tests all methods, and prints a table."""
    for truth in truths:
        test = shop(truth, 2_000, 1_000)
        for seed in (1, 2, 3):
            frames = shop(truth, queries, seed), test
            for columns, name in itertools.product(of_columns, METHODS):
                if columns == "shared" and name != "Ranker":
                    continue
                if settings and (truth, columns, name) not in settings:
                    raise SystemExit(f"{name} was not tuned: {truth}, {columns}.")
                given = settings.get((truth, columns, name), {})
                results.measure(truth, columns, name, seed, frames, given, seed)
    report(results, queries, settings)


def report(results: Results, queries: int, settings: dict) -> None:
    """Prints means, and the differences of `Ranker` to the others by their columns."""
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    for (truth, columns, name, _, number, used), values in results.read():
        key = truth, columns, name
        if number == str(queries) and used == json.dumps(settings.get(key, {})):
            found.setdefault(key, []).append(values)
    rng = np.random.default_rng(0)
    for (truth, columns, name), several in found.items():
        mean = np.mean(several, axis=0)
        line = f"{truth:<9}{columns:<12}{name:<10}{mean.mean():.4f}"
        means = np.mean(several, axis=1)
        spread = np.std(means, ddof=1) if len(means) > 1 else 0.0
        line += f"  (seeds {spread:.4f})"
        ranker = found.get((truth, columns, "Ranker"))
        if ranker and name != "Ranker":
            gap = np.mean(ranker, axis=0) - mean
            means = rng.choice(gap, [1_000, len(gap)]).mean(axis=1)
            low, high = np.quantile(means, [0.025, 0.975])
            line += f"  Ranker {gap.mean():+.4f} ({low:+.4f} to {high:+.4f})"
        print(line)


def costs(queries: int) -> None:
    """Prints what a model of all columns costs."""
    frame = shop("match", queries, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(frame):,} rows, {before:.1f} GiB with the frame")
    names = ["query", *COLUMNS["match"]]
    ranker = tfr_ext.Ranker(query="query", texts=TEXTS, context=CONTEXT, verbose=0)
    seconds = {}
    for epochs in (1, 3):
        start = time.monotonic()
        ranker.set_params(num_epochs=epochs).fit(frame[names], frame["label"])
        seconds[epochs] = time.monotonic() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"reading and the first epoch {seconds[1]:.0f} s, peak {peak:.1f} GiB")
    print(f"a further epoch {(seconds[3] - seconds[1]) / 2:.0f} s")
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        version = ranker.export(folder)
        taken = time.monotonic() - start
        size = sum(x.stat().st_size for x in pathlib.Path(version).rglob("*"))
        print(f"export {taken:.1f} s, {size / 2**20:.1f} MiB")
        served = tf.saved_model.load(version).signatures["serving_default"]
        items = frame[:SIZE]
        request = {
            name: tf.constant([items[name].tolist()]) for name in ("title", "brand")
        }
        request |= {name: tf.constant([items[name].iloc[0]]) for name in CONTEXT}
        request["float_features"] = tf.constant(
            [items[["price", "rating"]].to_numpy(np.float32).tolist()]
        )
        times = []
        for _ in range(300):
            start = time.perf_counter()
            served(**request)
            times.append(time.perf_counter() - start)
        print(f"a request of {SIZE} items: median {np.median(times) * 1e3:.2f} ms")


def main() -> None:
    """Runs what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["tuned", "compare", "costs"])
    parser.add_argument("--output", default="shop.csv")
    parser.add_argument("--tuned", help="the file of `tuned`")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--truths", nargs="+", choices=TRUTHS, default=TRUTHS)
    parser.add_argument(
        "--columns", nargs="+", choices=[*COLUMNS, "shared"], default=[*COLUMNS]
    )
    given = parser.parse_args()
    if given.part == "costs":
        costs(given.queries or 100_000)
    elif given.part == "tuned":
        tuned(Results(given.output), given.truths, given.columns)
    else:
        settings = chosen(Results(given.tuned)) if given.tuned else {}
        queries, chosen_of = given.queries or 5_000, (given.truths, given.columns)
        compare(Results(given.output), queries, settings, *chosen_of)


if __name__ == "__main__":
    main()
