"""What is read of ELWC records: the names of features, and what they hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tfr_ext.core.decimals import is_finite
from tfr_ext.data.features import MOST_VALUES, TEXT_WORDS, Feature, FeatureSpec

_NAMED = ("category_columns", "text_columns", "context_columns")


@dataclasses.dataclass(frozen=True)
class ElwcSchema:
    """The names of the features in `ExampleListWithContext` protos.

    Attributes:
        features: features of the examples, each with one number or several. Joined in
            this order, they are the features of an item.
        context_features: features of the context, which follow those of the examples
            and are the same for all items of a list.
        label: the label of an example, one number; None if labels are not wanted, and
            are then 0.
        query_id: the name of the query in the context; empty if there is none.
        doc_id: the name of an example; empty if there is none.
        label_distribution: the probability of each grade, an array; empty if there is
            none.
        weight: the weight of an example, one number; empty if all have the same weight.
        missing_value: what features become that an example, or a context, lacks; NaN
            says that they are missing.
        columns: names of single numbers, `a` or `a[0]` and `a[1]`, that a model is
            known to take. Only their features may be absent from all of the first file.
        takes_nan: whether features may be NaN; they may if `missing_value` is.
        category_columns: features whose values are names: bytes or int64.
        text_columns: features whose words count: bytes or int64.
        context_columns: those of both that are in the context.
        text_words: how many words of a text are used.
        spec: what the features are, if a model is known that takes categories: then
            those are read, and their kinds are not those of the first file.
        packed: what the features of prepared shards are, whose ids are bytes; None if
            they are numbers.

    Examples:
        >>> schema = ElwcSchema(["bm25", "pagerank"], label="relevance")
        >>> schema.query_id
        'query_id'
    """

    features: Sequence[str] = ("float_features",)
    context_features: Sequence[str] = ()
    label: str | None = "label"
    query_id: str = "query_id"
    doc_id: str = "doc_id"
    label_distribution: str = "label_distribution"
    weight: str = ""
    missing_value: float = 0.0
    columns: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    takes_nan: bool = False
    category_columns: Sequence[str] = ()
    text_columns: Sequence[str] = ()
    context_columns: Sequence[str] = ()
    text_words: int = TEXT_WORDS
    spec: FeatureSpec | None = None
    packed: FeatureSpec | None = None

    def __post_init__(self) -> None:
        """Checks the names."""
        if self.spec is not None:
            every, context = self.spec.encoded(), self.spec.encoded(True)
            for kind in ("category", "text"):
                names = [x.name for x in every if x.kind == kind]
                object.__setattr__(self, f"{kind}_columns", names)
            object.__setattr__(self, "context_columns", [x.name for x in context])
        known = self.spec or self.packed
        if known is not None and not known.num_features:
            object.__setattr__(self, "features", ())
        if math.isnan(self.missing_value):
            object.__setattr__(self, "takes_nan", True)
        fields = ("features", "context_features", *_NAMED)
        for kind in fields:
            if not isinstance(getattr(self, kind), str):
                object.__setattr__(self, kind, tuple(getattr(self, kind)))
        if self.label is not None and not self.label:
            raise ValueError("`label` must name a feature. Received: ''.")
        others = [self.label, self.doc_id, self.label_distribution, self.weight]
        names = [name for name in others if name]
        of_items, of_lists = self.categories
        if self.query_id and self.query_id not in self.text_columns:
            of_lists = [*of_lists, self.query_id]  # A text may be both.
        for kind, used in (
            ("features", [*self.features, *of_items, *names]),
            ("context_features", [*self.context_features, *of_lists]),
            ("category_columns", self.encoded),
            ("text_columns", self.text_columns),
        ):
            given = getattr(self, kind)
            if isinstance(given, str) or not all(given):
                raise ValueError(
                    f"`{kind}` must be a list of names. Received: {given!r}."
                )
            for name in used:
                if used.count(name) > 1:
                    raise ValueError(f"{name!r} has two uses: {self}.")
        for name in self.context_columns:
            if name not in self.encoded:
                raise ValueError(
                    f"`context_columns` names {name!r}, expected one of "
                    "`category_columns` or `text_columns`: "
                    f"{', '.join(self.encoded) or 'none'}."
                )
        named = self.features or self.context_features or self.encoded
        if not named and self.packed is None:
            raise ValueError("`features` must name at least one feature.")
        if not (math.isnan(self.missing_value) or is_finite(self.missing_value)):
            raise ValueError(
                "`missing_value` must be a finite number or NaN. Received: "
                f"{self.missing_value}."
            )

    def of_shards(self, spec: FeatureSpec) -> ElwcSchema:
        """Returns the names of the features in prepared shards, whose ids are bytes."""
        return dataclasses.replace(
            self,
            features=ElwcSchema.features,
            context_features=ElwcSchema.context_features,
            category_columns=(),
            text_columns=(),
            context_columns=(),
            spec=None,
            packed=spec,
        )

    @property
    def encoded(self) -> tuple[str, ...]:
        """Names of the categories, and then of the texts."""
        return (*self.category_columns, *self.text_columns)

    @property
    def categories(self) -> tuple[list[str], list[str]]:
        """Names of the categories and texts of the examples, and of the context."""
        context = self.context_columns
        return [name for name in self.encoded if name not in context], list(context)

    def parsed_categories(self, widths: Widths) -> tuple[list[Feature], list[Feature]]:
        """Returns the categories that are parsed by name: of items, and of lists."""
        if self.packed is not None:
            return [], []
        spec = self.spec_of(widths)
        return spec.encoded(False), spec.encoded(True)

    def spec_of(self, widths: Widths) -> FeatureSpec:
        """Returns what the features are: `spec`, or by what was found in a file."""
        if self.spec is not None:
            return self.spec
        found: list[Feature] = []
        for names, sizes, context in (
            (self.features, widths.features, False),
            (self.context_features, widths.context, True),
        ):
            whole = widths.integers[context]
            for name, width in zip(names, sizes):
                found.append(Feature(name, "number", context, width, name in whole))
            for name in self.categories[context]:
                kind, width = "category", MOST_VALUES if name in widths.several else 1
                if name in self.text_columns:
                    kind, width = "text", self.text_words
                found.append(Feature(name, kind, context, width, name in whole))
        return FeatureSpec(tuple(found))


@dataclasses.dataclass(frozen=True)
class Widths:
    """The numbers of values, which are the same in all of the data.

    Attributes:
        features: width of each of `ElwcSchema.features`; `context` is alike.
        grades: width of the label distributions; None if there are none.
        integers: names of the features, of examples and of the context, that hold
            integers.
        several: names of the categories that have several values.
    """

    features: tuple[int, ...]
    context: tuple[int, ...]
    grades: int | None
    integers: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    several: frozenset[str] = frozenset()

    @property
    def num_features(self) -> int:
        """Width of the features of an item."""
        return sum(self.features) + sum(self.context)


@dataclasses.dataclass(frozen=True)
class Chunk:
    """The contents of some records of a file, in arrays like those of `RankingLists`.

    Attributes:
        labels: float32 array `[num_items]`; negative where nobody judged the item.
        lengths: number of items of each list.
        query_ids: name of each query, None where it has none.
        doc_ids: name of each item, or None if one has none.
        num_absent: how many of the features the examples lack.
        faults: how many categories or texts of items or lists have more values or words
            than are used, and how many texts are not UTF-8.
    """

    features: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    query_ids: list[str | None]
    doc_ids: list[str] | None
    distributions: np.ndarray | None
    weights: np.ndarray | None
    num_absent: int = 0
    ids: np.ndarray | None = None
    context_ids: np.ndarray | None = None
    faults: tuple[int, ...] = (0, 0)
