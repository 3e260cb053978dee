"""Synthetic collections on which defaults are chosen and tried, and real ones.

A query's documents have latent traits, normal; a judge's opinion is a function of some
of them, of products of two, and of products with a trait of the query, plus noise. What
a ranker sees is a distorted image: columns of other scales and offsets, heavy tails,
counts, copies, constants, noise, and cells that are missing.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tfr_ext.data import RankingLists

# How many traits count, and how many do not.
_USED, _UNUSED = 8, 6
# Shares of the documents with grades below 1, 2, 3 and 4.
_GRADES = (0.6, 0.8, 0.92, 0.98)


@dataclasses.dataclass(frozen=True)
class World:
    """A synthetic collection.

    Attributes:
        queries: number of queries for training; 300 more are for the test.
        items: mean length of a list; lengths are from half to one and a half of it.
        by_query: whether half of the columns have other scales and offsets in each
            query, as scores of a search engine have.
        missing: share of the cells of three columns that are NaN.
        context: share of the opinion that depends on the query's traits, which are
            columns too.
    """

    queries: int
    items: int
    by_query: bool = False
    missing: float = 0.0
    context: float = 0.0

    def draw(self, seed: int) -> tuple[RankingLists, RankingLists]:
        """Returns the lists for training and those of the test."""
        rng = np.random.default_rng(seed)
        tested = max(30, min(300, 30_000 // self.items))
        lengths = rng.integers(
            max(2, self.items // 2), self.items + self.items // 2 + 1,
            self.queries + tested,
        )  # fmt: skip
        splits = np.r_[0, np.cumsum(lengths)]
        query = np.repeat(np.arange(len(lengths)), lengths)
        traits = rng.normal(size=(splits[-1], _USED + _UNUSED))
        asked = rng.normal(size=(len(lengths), 2))[query]
        opinion = self._opinion(rng, traits, asked)
        labels = np.searchsorted(np.quantile(opinion, _GRADES), opinion)
        features = self._seen(rng, traits, asked, query).astype(np.float32)
        lists = RankingLists(
            features=features,
            labels=labels.astype(np.float32),
            row_splits=splits,
            query_ids=[str(q) for q in range(len(lengths))],
        )
        order = np.arange(len(lengths))
        return lists.select(order[: self.queries]), lists.select(order[self.queries :])

    def _opinion(
        self, rng: np.random.Generator, traits: np.ndarray, asked: np.ndarray
    ) -> np.ndarray:
        used = traits[:, :_USED]
        weights = rng.normal(size=_USED)
        opinion = used @ weights + 0.7 * np.abs(used[:, 0]) - 0.5 * used[:, 1] ** 2
        opinion += used[:, 2] * used[:, 3] + (used[:, 4] > 1) * used[:, 5]
        opinion /= opinion.std()
        by_query = asked[:, 0] * used[:, 6] + asked[:, 1] * used[:, 7]
        opinion = (1 - self.context) * opinion + self.context * by_query
        return opinion / opinion.std() + rng.normal(size=len(opinion)) * 0.5

    def _seen(
        self,
        rng: np.random.Generator,
        traits: np.ndarray,
        asked: np.ndarray,
        query: np.ndarray,
    ) -> np.ndarray:
        columns = []
        for number, trait in enumerate(traits.T):
            forms = (
                lambda x: x,
                lambda x: np.exp(1.5 * x),  # A heavy tail.
                lambda x: np.floor(np.exp(x + 1)),  # A count.
                lambda x: np.sign(x) * np.abs(x) ** 3,
            )
            column = forms[number % 4](trait)
            if self.by_query and number % 2:
                of_query = rng.normal(size=(2, query[-1] + 1))[:, query]
                column = np.exp(of_query[0]) * column + 3 * of_query[1] * column.std()
            columns.append(10.0 ** rng.uniform(-3, 4) * column + rng.normal())
        columns += [columns[0], 2 * columns[1], np.full(len(query), 7.0)]
        columns += [*asked.T] if self.context else []
        seen = self.with_gaps(rng, np.stack(columns, axis=1))
        return seen[:, rng.permutation(seen.shape[1])]

    def with_gaps(self, rng: np.random.Generator, seen: np.ndarray) -> np.ndarray:
        """Makes cells of three columns NaN."""
        for column in rng.permutation(seen.shape[1])[:3]:
            seen[rng.random(len(seen)) < self.missing, column] = np.nan
        return seen


WORLDS = {
    "30 x 100": World(30, 100),
    "100 x 30, by query": World(100, 30, by_query=True),
    "100 x 1,000": World(100, 1000),
    "300 x 10, missing": World(300, 10, missing=0.2),
    "1,000 x 20, context": World(1000, 20, context=0.5),
    "1,000 x 50, by query, missing": World(1000, 50, by_query=True, missing=0.1),
    "3,000 x 20": World(3000, 20),
    "10,000 x 10, context, by query": World(10_000, 10, by_query=True, context=0.3),
}
