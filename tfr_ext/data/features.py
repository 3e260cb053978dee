"""What the features of a ranker are, apart from their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

KINDS = ("number", "category", "text")
MOST_VALUES, TEXT_WORDS = 8, 16
"""How many values of a category an item has at most, and how many words of a text by
default."""


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature of items, or of lists.

    Attributes:
        name: its name, such as that of a column.
        kind: 'number', 'category' or 'text'.
        context: whether it is of the list (a query, a user), not of the item.
        width: how many numbers it has; of a category, the most values of one item; of
            a text, the most words.
        is_integer: whether its values are whole numbers: int64 in protos; the value of
            a category is then its decimal text.
    """

    name: str
    kind: str = "number"
    context: bool = False
    width: int = 1
    is_integer: bool = False

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

    @property
    def numbers(self) -> list[Feature]:
        """The features that are numbers: those of the items, then of the context."""
        numbers = [feature for feature in self.features if feature.kind == "number"]
        return sorted(numbers, key=lambda feature: feature.context)

    @property
    def feature_names(self) -> list[str]:
        """A name for each number."""
        return [column for feature in self.numbers for column in feature.columns]

    @property
    def num_features(self) -> int:
        """How many numbers an item has, with those of its context."""
        return sum(feature.width for feature in self.numbers)

    def encoded(self, context: bool | None = None) -> list[Feature]:
        """Returns what has ids: of items, of the context, or of both in turn."""
        found = [feature for feature in self.features if feature.kind != "number"]
        found = sorted(found, key=lambda feature: feature.context)
        return [x for x in found if context is None or x.context == context]

    @property
    def num_ids(self) -> int:
        """How many ids the categories and texts of an item have."""
        return sum(feature.width for feature in self.encoded(False))

    @property
    def num_context_ids(self) -> int:
        """How many ids the categories and texts of the context have."""
        return sum(feature.width for feature in self.encoded(True))

    @property
    def is_numeric(self) -> bool:
        """Whether all features are numbers."""
        return not self.encoded()

    @property
    def inputs(self) -> list[tuple[Feature, str]]:
        """Each category and text, and the name of its input of a request.

        It is the feature's where that is an identifier and means nothing else.
        """
        found = []
        for number, feature in enumerate(self.encoded(), 1):
            name = feature.name
            plain = name.isascii() and name.isidentifier()
            if not plain or name in _RESERVED or name.startswith("feature_"):
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
