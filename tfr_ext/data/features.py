"""What the features of a ranker are, apart from their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from keyword import iskeyword
from typing import Any

KINDS = ("number", "category", "text", "embedding")
MOST_VALUES, TEXT_WORDS = 8, 16
"""How many values of a category an item has at most, and how many words of a text by
default."""


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of items, or of lists.

    Attributes:
        name: its name, such as that of a column.
        kind: 'number', 'category', 'text' or 'embedding': the vector of a text or
            image, made elsewhere.
        context: whether it is of the list (a query, a user), not of the item.
        width: how many numbers it has; of a category, the most values of one item; of
            a text, the most words.
        is_integer: whether its values are whole numbers: int64 in protos; the value of
            a category is then its decimal text.
        as_input: whether a model takes the numbers of an embedding, not only its
            cosine with another.
        as_text: whether a request has the text of an embedding, as the model that is
            served has the encoder.
    """

    name: str
    kind: str = "number"
    context: bool = False
    width: int = 1
    is_integer: bool = False
    as_input: bool = False
    as_text: bool = False

    @property
    def has_several(self) -> bool:
        """Whether it is a category of which an item may have several values."""
        return self.kind == "category" and self.width > 1

    @property
    def columns(self) -> list[str]:
        """A name for each of its numbers."""
        if self.width == 1:
            return [self.name]
        return [f"{self.name}[{i}]" for i in range(self.width)]


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """The features that a ranker takes, in order.

    Examples:
        >>> spec = FeatureSpec((
        ...     Feature("price"), Feature("brand", "category"),
        ...     Feature("device", "category", context=True),
        ...     Feature("age", context=True)))
        >>> spec.feature_names, spec.num_ids, spec.num_context_ids
        (['price', 'age'], 1, 1)
        >>> FeatureSpec.from_json(spec.to_json()) == spec
        True
    """

    features: tuple[Feature, ...]

    def _of(self, *kinds: str) -> list[Feature]:
        """Returns the features of some kinds: of the items, then of the context."""
        found = [feature for feature in self.features if feature.kind in kinds]
        return sorted(found, key=lambda feature: feature.context)

    @property
    def numbers(self) -> list[Feature]:
        """The features that are numbers: those of the items, then of the context."""
        return self._of("number")

    @property
    def embeddings(self) -> list[Feature]:
        """The embeddings, whose numbers follow all others, in the same order."""
        return self._of("embedding")

    @property
    def number_names(self) -> list[str]:
        """A name for each number that is of no embedding."""
        return [column for feature in self.numbers for column in feature.columns]

    @property
    def feature_names(self) -> list[str]:
        """A name for each number."""
        embeddings = [column for one in self.embeddings for column in one.columns]
        return self.number_names + embeddings

    @property
    def num_numbers(self) -> int:
        """How many numbers precede those of embeddings."""
        return sum(feature.width for feature in self.numbers)

    @property
    def num_features(self) -> int:
        """How many numbers an item has, with those of its context."""
        return sum(x.width for x in (*self.numbers, *self.embeddings))

    def encoded(self, context: bool | None = None) -> list[Feature]:
        """Returns what has ids: of items, of the context, or of both in turn."""
        found = self._of("category", "text")
        return [x for x in found if context is None or x.context == context]

    def slices(self) -> list[tuple[Feature, slice]]:
        """Returns each embedding with the places of its numbers."""
        found, start = [], self.num_numbers
        for one in self.embeddings:
            found.append((one, slice(start, start + one.width)))
            start += one.width
        return found

    def pairs(self, kind: str) -> list[tuple[Feature, Feature]]:
        """Returns each text or embedding of the context with each of the items.

        Embeddings must be as wide as each other.
        """
        context, items = (
            [x for x in self._of(kind) if x.context is of] for of in (True, False)
        )
        return [
            (query, item)
            for query in context
            for item in items
            if kind == "text" or query.width == item.width
        ]

    @property
    def num_ids(self) -> int:
        """How many ids the categories and texts of an item have."""
        return sum(feature.width for feature in self.encoded(False))

    @property
    def num_context_ids(self) -> int:
        """How many ids the categories and texts of the context have."""
        return sum(feature.width for feature in self.encoded(True))

    @property
    def others(self) -> list[Feature]:
        """The features that are no numbers: what has ids, and then embeddings."""
        return [*self.encoded(), *self.embeddings]

    @property
    def is_numeric(self) -> bool:
        """Whether all features are numbers."""
        return not self.others

    @property
    def inputs(self) -> list[tuple[Feature, str]]:
        """Each feature that is no number, and the name of its input of a request.

        It is the feature's where that is an identifier and means nothing else; the
        text of 'query_embedding' is 'query', if no other feature is.
        """
        found, names = [], {x.name for x in self.features}
        for number, feature in enumerate(self.others, 1):
            name = feature.name
            if feature.as_text and name.removesuffix("_embedding") not in names:
                name = name.removesuffix("_embedding")
            plain = name.isascii() and name.isidentifier() and not iskeyword(name)
            if not plain or name in _RESERVED or name.startswith(("feature_", "_")):
                name = f"feature_{number}"
            found.append((feature, name))
        return found

    def to_json(self) -> list[dict[str, Any]]:
        """Returns it in a form that JSON can hold."""
        return [dataclasses.asdict(feature) for feature in self.features]

    @classmethod
    def from_json(cls, content: Iterable[Mapping[str, Any]]) -> FeatureSpec:
        """Returns what `to_json` described.

        Raises:
            ValueError: If it did not.
        """
        try:
            features = tuple(Feature(**each) for each in content)
        except TypeError as error:
            raise ValueError(f"Expected features. Found: {content!r}.") from error
        for feature in features:
            if feature.kind not in KINDS:
                raise ValueError(f"There is no kind of feature {feature.kind!r}.")
        return cls(features)


_RESERVED = ("float_features", "ids", "context_ids", "mask", "topn", "self")
