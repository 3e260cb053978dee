"""Which defaults of `Ranker` make a first fit good? The protocol, as a script.

    pip install lightgbm catboost xgboost
    python benchmarks/defaults.py choose --data DIR --output FILE
    python benchmarks/defaults.py look --data DIR --candidate NAME --output FILE
    python benchmarks/defaults.py seconds
    python benchmarks/defaults.py cause --candidate NAME
    python benchmarks/defaults.py refit --data DIR --candidate NAME --output FILE
    python benchmarks/defaults.py seeds --data DIR --candidate NAME --output FILE

With `--part 1/2` and `--part 2/2` two processes share the collections; a third run,
with their files as one, only reports.

`choose` fits the candidates on the development collections: the training parts of folds
2 and 3 of MQ2008, tried on their validation parts, and the synthetic worlds of
`default_worlds.py` with the seed 1. `look` fits today's defaults, the chosen candidate
and the trees on the test collections, and is run once: MQ2008, folds 3 to 5; OHSUMED,
all folds; the synthetic worlds with the seed 11; and, only reported, the MSLR sample
and the raw part of OHSUMED, in five folds each (`benchmarks/make_folds.py`).

Everybody gets the training part alone, as a user would have it: `Ranker` holds out a
part of it for its best epoch, the trees grow their default number. Features that are
missing are NaN, in whose place `Ranker` puts the mean. All are fitted with the seeds 1
and 2 to choose, 1 to 3 to look, and a query's value is its mean over them.

`refit` asks on the development collections whether a second fit of the candidate, on
all queries for as many epochs as the best one of the first, brings more than .005. It
takes the epoch of the best training NDCG@10, the last but for noise. `seeds` fits
today's and the candidate with five seeds on the development part of MQ2008. `cause`
takes from two development worlds what may suit trees: distorted columns, products in
the opinion.

The rule of the choice, made before any figure:

1. The score of a candidate is the mean over the collections (MQ2008, and each world) of
   its difference to today's defaults in NDCG@10.
2. It may be significantly below today's (paired t-test over the queries of a
   collection, two-sided, 5 %, without correction) on no collection.
3. It may take at most the seconds that today's take at 100,000 items.
4. Of those within .003 of the best score the one that comes first in CANDIDATES, where
   they stand in the order of what one has to explain.
5. `query_` transforms, which make `predict` need the lists, enter only if they bring
   .01 in the mean over the worlds with other scales in each query, and are on MQ2008
   not significantly worse than the same without.
6. An ensemble of three enters only if it brings .005 over one of its models.

The first round, of the twelve candidates up to 'beside, three', left none but today's:
with batches of 32 lists and 100 epochs, 10,000 queries took up to three times today's
seconds. Hence the second round, of four that take larger batches and fewer epochs from
1,000 queries on, by the same rule. It left none either: 'few steps, 256', the choice
but for the seconds, took 1.5 times today's. Hence a third, of two candidates that take
30 epochs from 1,000 queries on. No test part had been looked at. Of these the rule
takes '30 epochs, 256', which is `model='auto'`: 1,000 queries of which 200 are held out
are 800 training queries there.

rankers.md chose its network and transforms on the validation parts of all five folds of
these collections, and two seeds of them were seen in its test parts; the test parts of
folds 3 to 5 are in that sense not new.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import itertools
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
from default_worlds import WORLDS, World  # noqa: E402

import tfr_ext  # noqa: E402
from tfr_ext import evaluation  # noqa: E402
from tfr_ext.data import RankingLists, read_letor  # noqa: E402
from tfr_ext.evaluation import significance  # noqa: E402

ACTIONS = ("choose", "look", "seconds", "cause", "refit", "seeds")
METRICS = ("ndcg_10", "map")
STEPS = {"batch_size": 32, "num_epochs": 100, "early_stopping_patience": 20}
SMALL = {**STEPS, "hidden_sizes": (64, 32), "dropout": 0.3}
TOP = {"loss_params": {"topn": 10}}
SCALED = ("log1p", "standard")
BESIDE = ("log1p", "standard+query_standard+query_rank")
# In the order of what has to be explained; the first is what the default was before the
# choice. All are of the model 'mlp'; the one chosen is 'auto' now.
CANDIDATES: dict[str, dict[str, Any]] = {
    "today": {},
    "steps": STEPS,
    "scaled": {**STEPS, "feature_transforms": SCALED},
    "small": {**SMALL, "feature_transforms": SCALED},
    "small, top": {**SMALL, **TOP, "feature_transforms": SCALED},
    "small, quantiles": {**SMALL, "feature_transforms": ("quantile",)},
    "small, PiRank": {
        **SMALL,
        **TOP,
        "loss": "pirank_ndcg_loss",
        "feature_transforms": SCALED,
    },
    "small, plain": {
        **SMALL,
        "feature_transforms": SCALED,
        "batch_normalization": False,
    },
    "beside": {**SMALL, "feature_transforms": BESIDE},
    "beside, PiRank": {
        **SMALL,
        **TOP,
        "loss": "pirank_ndcg_loss",
        "feature_transforms": BESIDE,
    },
    "beside, by size": {**STEPS, "dropout": 0.3, "feature_transforms": BESIDE},
    "beside, three": {**SMALL, "feature_transforms": BESIDE, "num_models": 3},
    # The second round: 'beside', with fewer steps from 1,000 queries on (`by_size`).
    "few steps": {**SMALL, "feature_transforms": BESIDE},
    "few steps, 256": {
        **STEPS,
        "hidden_sizes": (256, 128),
        "dropout": 0.2,
        "feature_transforms": BESIDE,
    },
    "few steps, 1,024": {**STEPS, "feature_transforms": BESIDE},
    "few steps, three": {**SMALL, "feature_transforms": BESIDE},
    # The third round: fewer steps still.
    "30 epochs, 256": {
        **STEPS,
        "hidden_sizes": (256, 128),
        "dropout": 0.2,
        "feature_transforms": BESIDE,
    },
    "30 epochs, 128": {
        **STEPS,
        "hidden_sizes": (128, 64),
        "dropout": 0.2,
        "feature_transforms": BESIDE,
    },
}


def by_size(candidate: str, lists: RankingLists) -> dict[str, Any]:
    """Returns the parameters of a candidate that depend on the number of queries."""
    if candidate == "beside, by size":
        few = lists.num_items < 100_000
        return {"hidden_sizes": (64, 32) if few else (256, 128)}
    if not candidate.startswith(("few steps", "30 epochs")):
        return {}
    if lists.num_lists < 1000:
        return {"num_models": 3} if candidate == "few steps, three" else {}
    epochs = 30 if candidate.startswith("30 epochs") else 50
    return {"batch_size": 128, "num_epochs": epochs, "early_stopping_patience": 10}


@dataclasses.dataclass(frozen=True)
class Collection:
    """Lists for training and for the test."""

    name: str
    train: RankingLists
    test: RankingLists


def real(data: pathlib.Path, folder: str, fold: int, part: str) -> Collection:
    """Returns a fold of a collection that stands below `data` as LETOR's do."""
    where = data / folder / f"Fold{fold}"
    train = read_letor(where / "train.txt", missing_value=float("nan"))
    test = read_letor(where / f"{part}.txt", train.num_features, float("nan"))
    return Collection(f"{folder} {fold}", train, test)


def development(data: pathlib.Path) -> Iterator[Collection]:
    """The collections of the choice."""
    yield from (real(data, "MQ2008", fold, "vali") for fold in (2, 3))
    yield from worlds(1)


def tests(data: pathlib.Path) -> Iterator[Collection]:
    """The collections that are looked at once."""
    yield from (real(data, "MQ2008", fold, "test") for fold in (3, 4, 5))
    for folder in ("OHSUMED/QueryLevelNorm", "MSLR35", "OHSUMED/Feature-null"):
        yield from (real(data, folder, fold, "test") for fold in range(1, 6))
    yield from worlds(11)


def worlds(seed: int) -> Iterator[Collection]:
    """The synthetic worlds."""
    for name, world in WORLDS.items():
        yield Collection(f"world {name}", *world.draw(seed))


def ranker(candidate: str, lists: RankingLists, seed: int) -> tfr_ext.Ranker:
    """Returns a candidate, not fitted."""
    given = {"model": "mlp", **CANDIDATES[candidate], **by_size(candidate, lists)}
    return tfr_ext.Ranker(**given, random_state=seed)


def network(candidate: str) -> Callable[[RankingLists, RankingLists, int], np.ndarray]:
    """Returns what fits a candidate and scores the test's lists."""

    def scores(train: RankingLists, test: RankingLists, seed: int) -> np.ndarray:
        fitted = ranker(candidate, train, seed)
        fitted.fit(train.features, train.labels, group=train.lengths)
        return fitted.predict(test.features, group=test.lengths)

    return scores


def refitted(candidate: str) -> Callable[[RankingLists, RankingLists, int], np.ndarray]:
    """Returns what fits a candidate twice, at last on all queries."""

    def scores(train: RankingLists, test: RankingLists, seed: int) -> np.ndarray:
        fitted = ranker(candidate, train, seed)
        given = {"group": train.lengths}
        fitted.fit(train.features, train.labels, **given)
        fitted.set_params(num_epochs=fitted.best_epoch_, early_stopping_patience=0)
        everything = train.features, train.labels
        fitted.fit(*everything, **given, eval_set=everything, eval_group=train.lengths)
        return fitted.predict(test.features, group=test.lengths)

    return scores


def spread_of_seeds(output: str) -> None:
    """Prints each method's mean NDCG@10, and its standard deviation over the seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    with open(output) as file:
        for _, _, method, seed, _, _, ndcg, _ in csv.reader(file):
            of_seed = found.setdefault(method, {}).setdefault(seed, [])
            of_seed.append(float(ndcg))
    for method, seeds in found.items():
        means = [statistics.mean(values) for values in seeds.values()]
        spread = statistics.stdev(means)
        print(f"{method:<18}{statistics.mean(means):.4f}, deviation {spread:.4f}")


def lightgbm(train: RankingLists, test: RankingLists, seed: int) -> np.ndarray:
    """`LGBMRanker()`."""
    from lightgbm import LGBMRanker

    model = LGBMRanker(random_state=seed, verbose=-1)
    model.fit(train.features, train.labels.astype(int), group=train.lengths)
    return np.asarray(model.predict(test.features))


def xgboost(train: RankingLists, test: RankingLists, seed: int) -> np.ndarray:
    """`XGBRanker(objective='rank:ndcg')`."""
    from xgboost import XGBRanker

    model = XGBRanker(objective="rank:ndcg", random_state=seed)
    model.fit(train.features, train.labels.astype(int), group=train.lengths)
    return np.asarray(model.predict(test.features))


def catboost(train: RankingLists, test: RankingLists, seed: int) -> np.ndarray:
    """`CatBoostRanker(loss='YetiRank')`, silent and without files."""
    from catboost import CatBoostRanker, Pool

    query = np.repeat(np.arange(train.num_lists), train.lengths)
    model = CatBoostRanker(
        loss_function="YetiRank",
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(Pool(train.features, train.labels, group_id=query))
    return np.asarray(model.predict(test.features))


TREES = {"LightGBM": lightgbm, "XGBoost": xgboost, "CatBoost": catboost}


def measured(
    collections: list[tuple[int, Collection]],
    methods: dict[str, Callable],
    seeds: tuple[int, ...],
    output: str,
) -> None:
    """Writes a line for each collection, method, seed and query.

    What stands there is not measured again, so that a run that was killed goes on.
    """
    path = pathlib.Path(output)
    done = set()
    if path.exists():
        with path.open() as file:
            done = {tuple(row[:4]) for row in csv.reader(file)}
    with path.open("a", newline="") as file:
        for seed, (number, collection), method in itertools.product(
            seeds, collections, methods
        ):
            key = (str(number), collection.name, method, str(seed))
            if key in done:
                continue
            start = time.monotonic()
            scores = methods[method](collection.train, collection.test, seed)
            seconds = time.monotonic() - start
            found = evaluation.per_query(collection.test, scores, METRICS)
            rows = io.StringIO()  # Written at once, or not at all.
            csv.writer(rows).writerows(
                (*key, query, f"{seconds:.2f}", *values)
                for query, *values in zip(
                    collection.test.query_ids, *found.values(), strict=True
                )
            )
            file.write(rows.getvalue())
            file.flush()
            print(
                *key, f"{seconds:.1f} s",
                *(f"{name} {x.mean():.4f}" for name, x in found.items()),
                flush=True,
            )  # fmt: skip


def per_query(output: str) -> dict[str, dict[str, np.ndarray]]:
    """Reads what `measured` wrote.

    Returns:
        For each collection, and each method, the means over the seeds of the metrics,
        `[queries, metrics]`. Folds are one collection.
    """
    found: dict[str, dict[str, dict[tuple, list]]] = {}
    with open(output) as file:
        for number, name, method, _, query, _, *values in csv.reader(file):
            name = name if name.startswith("world") else name.rpartition(" ")[0]
            queries = found.setdefault(name, {}).setdefault(method, {})
            queries.setdefault((number, query), []).append([*map(float, values)])
    return {
        name: {
            method: np.array([np.mean(x, axis=0) for _, x in sorted(queries.items())])
            for method, queries in methods.items()
        }
        for name, methods in found.items()
    }


def report(output: str, against: str) -> None:
    """Prints means, and differences to a method with 95 % intervals and p-values."""
    for name, methods in per_query(output).items():
        for column, metric in enumerate(METRICS):
            print(f"\n{name}, {metric}, {len(methods[against])} queries")
            for method, values in methods.items():
                found = significance.effect(
                    values[:, column], methods[against][:, column]
                )
                print(
                    f"{method:<18}{values[:, column].mean():.4f}  "
                    f"{found.difference:+.4f} ({found.low:+.4f} to {found.high:+.4f})"
                    f"  p {found.p_value:.3f}"
                )


def scores_of_candidates(output: str) -> None:
    """Prints the rule's first two numbers of each candidate."""
    collections = per_query(output)
    print(f"\n{'candidate':<18}{'score':>8}  significantly below today's on")
    for candidate in CANDIDATES:
        differences, below = [], []
        for name, methods in collections.items():
            found = significance.effect(
                methods[candidate][:, 0], methods["today"][:, 0]
            )
            differences.append(found.difference)
            if found.difference < 0 and found.p_value < 0.05:
                below.append(name)
        print(f"{candidate:<18}{np.mean(differences):+8.4f}  {', '.join(below)}")


def seconds(only: str, rounds: int = 3) -> None:
    """Prints the median seconds of a fit of 5,000 queries of 20 items, in turns."""
    train, test = World(5000, 20).draw(0)
    chosen = ["today", *(x for x in CANDIDATES if x.startswith(only))]
    methods = {**{name: network(name) for name in chosen}, **TREES}
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(rounds):
        for name, fit in methods.items():
            start = time.monotonic()
            fit(train, test, turn)
            taken[name].append(time.monotonic() - start)
    for name, found in taken.items():
        over = statistics.median(a / b for a, b in zip(found, taken["today"]))
        print(f"{name:<18}{statistics.median(found):7.1f} s  {over:.2f} of today's")


class Undistorted(World):
    """A world whose columns are the traits themselves."""

    def _seen(self, rng: np.random.Generator, *drawn: np.ndarray) -> np.ndarray:
        parts = drawn[: 1 + bool(self.context)]  # Traits, and those of the queries.
        return self.with_gaps(rng, np.concatenate(parts, axis=1))


class Additive(World):
    """A world whose opinions are a weighted sum of traits, and noise."""

    def _opinion(
        self, rng: np.random.Generator, traits: np.ndarray, asked: np.ndarray
    ) -> np.ndarray:
        opinion = traits[:, :8] @ rng.normal(size=8)
        return opinion / opinion.std() + rng.normal(size=len(opinion)) * 0.5


def cause(candidate: str) -> None:
    """Prints NDCG@10 in two worlds, without distortion, and without products."""
    methods = {candidate: network(candidate), **TREES}
    for name in ("300 x 10, missing", "1,000 x 20, context"):
        given = dataclasses.asdict(WORLDS[name])
        for kind in (World, Undistorted, Additive):
            train, test = kind(**given).draw(1)
            print(f"\n{name}, {kind.__name__}", end="", flush=True)
            for method, fit in methods.items():
                each = (fit(train, test, seed) for seed in (1, 2))
                found = [evaluation.per_query(test, x, METRICS[:1]) for x in each]
                mean = statistics.mean(x[METRICS[0]].mean() for x in found)
                print(f"  {method} {mean:.4f}", end="", flush=True)
    print()


def main() -> None:
    """Chooses, looks, or takes the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--output", help="A CSV file that grows.")
    parser.add_argument("--candidate", choices=CANDIDATES)
    parser.add_argument("--only", help="Of the candidates, those whose names start so.")
    parser.add_argument(
        "--part", default="1/1", help="'2/3': the second of every three collections."
    )
    arguments = parser.parse_args()
    if arguments.action == "seconds":
        seconds(arguments.only or "")
        return
    if arguments.action == "cause":
        cause(arguments.candidate or "30 epochs, 256")
        return
    if not arguments.data or not arguments.output:
        parser.error("--data and --output are needed.")
    part, parts = map(int, arguments.part.split("/"))

    def mine(collections: Iterator[Collection]) -> list[tuple[int, Collection]]:
        return list(enumerate(collections))[part - 1 :: parts]

    if arguments.action == "choose":
        chosen = [x for x in CANDIDATES if x.startswith(arguments.only or "")]
        methods = {name: network(name) for name in chosen}
        measured(mine(development(arguments.data)), methods, (1, 2), arguments.output)
        if arguments.only:
            return
        scores_of_candidates(arguments.output)
        report(arguments.output, "today")
        return
    if arguments.candidate is None:
        parser.error(f"{arguments.action} needs a --candidate.")
    names = ("today", arguments.candidate)
    methods = {name: network(name) for name in names}
    if arguments.action == "seeds":
        two = list(enumerate(itertools.islice(development(arguments.data), 2)))
        measured(two, methods, (1, 2, 3, 4, 5), arguments.output)
        spread_of_seeds(arguments.output)
        return
    if arguments.action == "refit":
        methods = {names[1]: network(names[1]), "refit": refitted(names[1])}
        measured(mine(development(arguments.data)), methods, (1, 2), arguments.output)
        report(arguments.output, names[1])
        return
    methods |= TREES
    measured(mine(tests(arguments.data)), methods, (1, 2, 3), arguments.output)
    for against in methods:
        report(arguments.output, against)


if __name__ == "__main__":
    main()
