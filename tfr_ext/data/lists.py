"""Ranking lists in memory, which every reader returns and every batcher takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfr_ext.core import grades, messages
from tfr_ext.data.features import TEXT_WORDS, FeatureSpec
from tfr_ext.data.tables import category_columns, frames, row_arrays


@dataclasses.dataclass(frozen=True)
class RankingLists:
    """Judged items grouped into lists, one list per query, items in file order.

    Items `row_splits[q]:row_splits[q + 1]` form list `q`.

    Attributes:
        features: float32 array of shape `[num_items, num_features]`.
        labels: float32 array of shape `[num_items]`, all `>= 0`.
        row_splits: int64 array of shape `[num_lists + 1]`, from 0 to `num_items`.
        query_ids: `num_lists` query identifiers, all different.
        doc_ids: `num_items` document identifiers, or None if the source has none.
        label_distributions: float32 array of shape `[num_items, num_grades]`: for each
            item the probability of each grade, or None if there are labels only.
        weights: float32 array of shape `[num_items]`, all finite and `>= 0`: the weight
            of each item in the loss, or None if all have the same weight. A listwise
            loss takes the label-weighted average over a list, so that a weight that is
            constant in a list is that list's weight. Metrics do not use them.
        feature_names: `num_features` names, or None if the source has none.
        ids: int64 array of shape `[num_items, spec.num_ids]`: the values of the
            categories of items, as fingerprints, -1 if missing, -2 where there are no
            more; None if items have none.
        context_ids: int64 array of shape `[num_lists, spec.num_context_ids]`: those of
            the categories of lists.
        spec: what the features are; None if they are numbers of items.

    Examples:
        >>> lists = RankingLists(
        ...     features=np.zeros([3, 2], np.float32),
        ...     labels=np.float32([1, 0, 2]),
        ...     row_splits=np.int64([0, 2, 3]),
        ...     query_ids=["a", "b"],
        ... )
        >>> lists.num_lists, lists.num_items, lists.num_features
        (2, 3, 2)
        >>> lists.lengths.tolist()
        [2, 1]
    """

    features: np.ndarray
    labels: np.ndarray
    row_splits: np.ndarray
    query_ids: Sequence[str]
    doc_ids: Sequence[str] | None = None
    label_distributions: np.ndarray | None = None
    weights: np.ndarray | None = None
    feature_names: Sequence[str] | None = None
    ids: np.ndarray | None = None
    context_ids: np.ndarray | None = None
    spec: FeatureSpec | None = None

    def __post_init__(self) -> None:
        """Checks that the arrays describe the same items."""
        items = len(self.labels)
        if self.features.ndim != 2 or len(self.features) != items:
            raise ValueError(
                "`features` must have shape [num_items, num_features] with "
                f"num_items = {items} as `labels` has. Received: {self.features.shape}."
            )
        splits = self.row_splits
        if len(splits) < 1 or splits[0] != 0 or splits[-1] != items:
            raise ValueError(
                f"`row_splits` must run from 0 to {items}. Received: {splits}."
            )
        for name, count, what in (
            ("query_ids", self.num_lists, "lists"),
            ("doc_ids", items, "items"),
            ("feature_names", self.num_features, "features"),
        ):
            names = getattr(self, name)
            if names is not None and len(names) != count:
                raise ValueError(
                    f"`{name}` must name {count} {what}. Received: {len(names)}."
                )
        if self.label_distributions is not None:
            grades.check_distributions(self.label_distributions, items)
        if self.weights is not None:
            if self.weights.shape != (items,):
                raise ValueError(
                    f"`weights` must have shape [{items}]. "
                    f"Received: {self.weights.shape}."
                )
            row_arrays.not_negative("`weights`", self.weights)
        for name, rows in (("ids", items), ("context_ids", self.num_lists)):
            width = getattr(self.spec, f"num_{name}", 0)
            found = getattr(self, name)
            shape = None if found is None else found.shape
            if shape != ((rows, width) if width else None):
                raise ValueError(
                    f"`{name}` must have shape [{rows}, {width}]. Received: {shape}."
                )

    @classmethod
    @messages.issuing_warnings()
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        group: Any = None,
        qid: Any = None,
        weight: Any = None,
        doc_ids: Any = None,
        query_ids: Any = None,
        feature_names: Sequence[str] | None = None,
        missing: bool = False,
        categories: Sequence[str] | str = (),
        texts: Sequence[str] = (),
        embeddings: Sequence[str] = (),
        context: Sequence[str] = (),
        spec: FeatureSpec | None = None,
        text_words: int = TEXT_WORDS,
        embedding_inputs: bool = False,
    ) -> RankingLists:
        """Makes lists from arrays with one row per item.

        The rows of a query must be next to each other. Give either `group` or `qid`,
        which mean the same as in LightGBM and XGBoost.

        Args:
            X: features `[num_items, num_features]`: a NumPy array, nested lists, a
                sparse matrix of SciPy, which is made dense, or a data frame, all of
                whose columns are features.
            y: labels `[num_items]`, `>= 0`. If they are left out, all labels are 0:
                such lists can be scored, but nothing can be learnt from them.
            group: number of rows of each list, `[num_lists]`.
            qid: the query of each row, `[num_items]`, numbers or texts.
            weight: weights `>= 0`, one per item or one per list, which then applies to
                all items of the list.
            doc_ids: name of each item.
            query_ids: with `group`, a name for each list; '1', '2', ... by default.
            feature_names: names of the features; by default, those of the columns if
                `X` is a data frame.
            missing: whether features may be missing, and are then NaN. Only a model
                takes them whose training had some.
            categories: columns of a data frame, see `from_dataframe`.
            texts: columns of a data frame, see `from_dataframe`.
            embeddings: columns of a data frame, see `from_dataframe`.
            context: columns of a data frame, see `from_dataframe`.
            spec: what the columns are, as other lists know it, in place of all four.
            text_words: see `from_dataframe`.
            embedding_inputs: see `from_dataframe`.

        Raises:
            ValueError: If shapes do not fit each other, both or neither of `group` and
                `qid` are given, a value is not a finite number, a label or weight is
                negative, or the rows of a query are not next to each other. The message
                names the row, counted from 0.

        Examples:
            >>> lists = RankingLists.from_arrays(
            ...     [[0.5, 1], [0.1, 0], [0.3, 1]], [1, 0, 2], qid=["a", "a", "b"])
            >>> lists.row_splits.tolist(), lists.query_ids
            ([0, 2, 3], ['a', 'b'])
            >>> RankingLists.from_arrays(
            ...     lists.features, lists.labels, group=[2, 1], weight=[3, 0.5]).weights
            array([3. , 3. , 0.5], dtype=float32)
        """
        if feature_names is not None:
            where = " in `feature_names`"
            feature_names = tuple(frames.column_names(feature_names, where))
        if frames.is_frame(X):
            frame = frames.as_frame(X, "X")
            if spec is None:
                if not category_columns.is_auto(categories):
                    categories = frames.named_columns(frame, categories, "categories")
                texts = frames.named_columns(frame, texts, "texts")
                embeddings = frames.named_columns(frame, embeddings, "embeddings")
                context = frames.column_names(context, " in `context`")
                named = categories, texts, embeddings, context, text_words
                spec = category_columns.spec_of(frame, *named, embedding_inputs)
            columns = names = list(frame.columns)
            if spec is not None:
                columns, names = spec.number_names, spec.feature_names
                frames.check_columns(frame.columns, [x.name for x in spec.features])
            features = frames.matrix(frame, columns, missing, spec)
            feature_names = feature_names or tuple(names)
        elif (
            spec
            or any(map(len, (texts, embeddings, context)))
            or (len(categories) and not category_columns.is_auto(categories))
        ):
            raise ValueError(
                "`X` must be a data frame, since `categories`, `texts`, `embeddings` "
                f"and `context` name its columns. Received: {type(X).__name__}."
            )
        else:
            features = row_arrays.matrix(X, feature_names, missing, messages.warn)
        made = row_arrays.fields(features, y, group, qid, weight, doc_ids, query_ids)
        if spec is not None:
            made |= category_columns.fields(frame, spec, made)
        return cls(**made, feature_names=feature_names)

    @classmethod
    def from_dataframe(
        cls,
        df: Any,
        label: str | None,
        query: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        doc_id: str | None = None,
        missing: bool = False,
        categories: Sequence[str] | str = (),
        texts: Sequence[str] = (),
        embeddings: Sequence[str] = (),
        context: Sequence[str] = (),
        text_words: int = TEXT_WORDS,
        embedding_inputs: bool = False,
    ) -> RankingLists:
        """Makes lists from a data frame with one row per item.

        Args:
            df: a pandas.DataFrame, or an object with `to_pandas()`, such as a Polars
                frame or a PyArrow table. The rows of a query must be next to each
                other.
            label: column of the labels, `>= 0`; None if nothing is judged: all are 0.
            query: column of the queries, numbers or texts.
            features: columns of the features, in order. By default, all other columns
                of numbers are features, and columns of anything else are left out. A
                UserWarning names those that look like numbers, and a value.
            weight: column of the weights, `>= 0`.
            doc_id: column of the names of the items.
            missing: see `from_arrays`.
            categories: columns whose values are names: texts, whole numbers, or lists
                of up to 8 of them; 'auto' for all columns of the types category and
                string. Their values become `ids`.
            texts: columns of texts, such as titles, whose words count; `query` may be.
            embeddings: columns of lists or arrays of numbers, as an encoder made them
                of texts or images; a missing one is 0. A model takes the cosine of each
                of the context with each of the items.
            context: features with one value a list: of the query, user or device.
            text_words: how many words of a text are used.
            embedding_inputs: whether a model takes the numbers of embeddings too.

        Returns:
            The lists, whose `feature_names` are those of the columns of numbers.

        Raises:
            ValueError: If a column is missing or has two uses, a value is wrong, or the
                rows of a query are not next to each other. The message names the column
                and the row, counted from 0.

        Examples:
            >>> import pandas
            >>> df = pandas.DataFrame({
            ...     "query": ["red shoes", "red shoes", "hat"],
            ...     "price": [20.0, 35.5, 9.0],
            ...     "title": ["Sneaker", "Boot", "Cap"],
            ...     "in_stock": [True, False, True],
            ...     "clicked": [1, 0, 1],
            ... })
            >>> lists = RankingLists.from_dataframe(df, label="clicked", query="query")
            >>> lists.feature_names, lists.features.tolist()
            (('price', 'in_stock'), [[20.0, 1.0], [35.5, 0.0], [9.0, 1.0]])
            >>> lists.lengths.tolist()
            [2, 1]
        """
        frame = frames.as_frame(df)
        is_auto = category_columns.is_auto(categories)
        columns = frames.Columns(
            *(label, query, features, weight, doc_id, missing),
            *(() if is_auto else categories, texts, embeddings, context),
            *(text_words, embedding_inputs),
        )
        if is_auto:
            named = category_columns.found(frame, columns.used)
            columns = dataclasses.replace(columns, categories=named)
        with messages.issuing_warnings():
            return cls.from_frame(frame, columns)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: frames.Columns,
        begun: dict[str, int] | None = None,
        row_before: int = 0,
    ) -> RankingLists:
        """Makes the lists of a piece of a table; see `frames.fields`."""
        spec = columns.spec
        if spec is None and (columns.named or columns.context):
            numbers = frames.find_features(frame, columns)
            spec = category_columns.features(frame, numbers, *columns.kinds)
            columns = columns.of(spec)
        given = frames.fields(frame, columns, begun, row_before)
        if spec is not None:
            given |= category_columns.fields(frame, spec, given)
        return cls(**given)

    def select(self, chosen: Sequence[int] | np.ndarray) -> RankingLists:
        """Returns the lists of the `chosen` indices, in that order."""
        chosen = np.asarray(chosen, np.int64)
        splits = self.row_splits
        items = np.concatenate(
            [np.arange(splits[q], splits[q + 1]) for q in chosen] or [chosen]
        )
        query_ids = [self.query_ids[q] for q in chosen]
        return self.with_items(items, self.lengths[chosen], query_ids)

    def with_items(
        self, items: np.ndarray, lengths: np.ndarray, query_ids: Sequence[str]
    ) -> RankingLists:
        """Returns lists of some of the items.

        Args:
            items: indices of the items, list by list.
            lengths: number of items of each list.
            query_ids: the query of each list.
        """
        distributions, weights = self.label_distributions, self.weights
        row_splits = np.concatenate([[0], np.cumsum(lengths)])
        context_ids = self.context_ids
        if context_ids is not None:
            first = np.asarray(items)[np.minimum(row_splits[:-1], len(items) - 1)]
            source = np.searchsorted(self.row_splits, first, "right") - 1
            context_ids = context_ids[source]
        return RankingLists(
            features=self.features[items],
            labels=self.labels[items],
            row_splits=row_splits,
            query_ids=query_ids,
            doc_ids=self.doc_ids and [self.doc_ids[i] for i in items],
            label_distributions=None if distributions is None else distributions[items],
            weights=None if weights is None else weights[items],
            feature_names=self.feature_names,
            ids=None if self.ids is None else self.ids[items],
            context_ids=context_ids,
            spec=self.spec,
        )

    @property
    def num_lists(self) -> int:
        """Number of lists (queries)."""
        return len(self.row_splits) - 1

    @property
    def num_items(self) -> int:
        """Number of items (documents) over all lists."""
        return len(self.labels)

    @property
    def num_features(self) -> int:
        """Width of the feature vectors."""
        return self.features.shape[1]

    @property
    def num_grades(self) -> int | None:
        """Width of the label distributions, or None."""
        shares = self.label_distributions
        return None if shares is None else shares.shape[1]

    @property
    def has_weights(self) -> bool:
        """Whether the items have weights."""
        return self.weights is not None

    @property
    def has_missing(self) -> bool:
        """Whether a feature of some item is NaN, which says that it is missing."""
        return bool(np.isnan(self.features.min(initial=np.inf)))  # Makes no copy.

    @property
    def max_label(self) -> float:
        """The highest label; 0 if there is none."""
        return float(self.labels.max(initial=0))

    @property
    def label_counts(self) -> dict[float, int]:
        """Number of items by label, from the lowest to the highest."""
        labels, counts = np.unique(self.labels, return_counts=True)
        return dict(zip(labels.tolist(), counts.tolist()))

    @property
    def num_empty(self) -> int:
        """Number of lists without a label above 0."""
        relevant = np.concatenate([[0], np.cumsum(self.labels > 0)])
        return int((np.diff(relevant[self.row_splits]) == 0).sum())

    @property
    def lengths(self) -> np.ndarray:
        """Number of items of each list, shape `[num_lists]`."""
        return np.diff(self.row_splits)
