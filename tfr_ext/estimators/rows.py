"""Converts the rows given to an estimator to lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfr_ext.core import checks, messages
from tfr_ext.data.features import TEXT_WORDS, FeatureSpec
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import frames
from tfr_ext.data.tables.category_columns import is_auto
from tfr_ext.estimators import as_settings
from tfr_ext.settings.data_checks import check_kinds
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.sources import data_splits

# Number of rows that are scored as one list if lists do not matter.
_ROWS = 1024
# What an estimator calls the arguments that messages name.
_WORDS = {"`missing`": "`settings={'missing': 'mean'}`", "`weight`": "`sample_weight`"}
_OF_EVAL_SET = {
    "`X`": "`eval_set`",
    "`y`": "`y` of `eval_set`",
    "`group`": "`eval_group`",
    "`qid`": "`eval_qid`",
}


def taken(X: Any, name: str = "X") -> Any:
    """Returns features as given; a data frame gets texts as column names.

    Args:
        X: features.
        name: the name of `X` in messages.

    Raises:
        ValueError: If two columns of a data frame have the same name.
    """
    return frames.as_frame(X, name) if frames.is_frame(X) else X


def query_of(X: Any, query: str | int | None, given: bool = False) -> str | None:
    """Returns the column of the queries, if there is one.

    A data frame, as `taken` returns it, must have the column `query`, unless the
    queries are `given` otherwise.
    """
    if query is None or not frames.is_frame(X):
        return None
    (column,) = frames.column_names([query], " in `query`")
    if column not in X.columns:
        if given:
            return None
        raise ValueError(
            f"`X` has no column `query={query!r}`. Its columns are: "
            f"{', '.join(X.columns)}."
        )
    return column


def lists(
    X: Any,
    y: Any,
    group: Any,
    qid: Any,
    weight: Any = None,
    query: str | int | None = None,
    columns: Sequence[str] | None = None,
    name: str = "X",
    missing: bool = False,
    categories: Sequence[str] | str = (),
    texts: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    context: Sequence[str] = (),
    spec: FeatureSpec | None = None,
    text_words: int = TEXT_WORDS,
    embedding_inputs: bool = False,
) -> RankingLists:
    """Returns rows as lists.

    `weight` has a value per row or per query, and `y` is None if nothing is judged. Of
    a data frame, `columns` are the features, in order: by default all columns other
    than `query`. Some of them are `categories` (or 'auto'), `texts`, `embeddings` or,
    with one value a list, `context`. With `missing`, features may be missing, and are
    then NaN. Messages call `X` by `name`, 'X' or 'eval_set'.
    """
    words = {**_WORDS, **(_OF_EVAL_SET if name == "eval_set" else {})}
    with as_settings.in_words(words):
        X = taken(X, name)
        if not is_auto(categories):
            categories = _columns("categories", categories)
        texts, context = _columns("texts", texts), _columns("context", context)
        embeddings = _columns("embeddings", embeddings)
        is_given = group is not None or qid is not None
        column = query_of(X, query, is_given and columns is not None)
        if column is not None and is_given:
            raise ValueError(
                f"`X` has the column `query={query!r}`: leave out `group` and `qid`."
            )
        if column is None and not is_given:
            raise ValueError(
                "The queries of `X` are not given. Pass `group`, the number of rows of "
                "each query, or `qid`, the query of each row."
            )
        if column is not None:
            named = texts if spec is None else [x.name for x in spec.features]
            if column not in named and column in (*categories, *embeddings, *context):
                raise ValueError(
                    f"Column {column!r} is that of `query`, and can be a feature only "
                    "as a text: name it in `texts`."
                )
            qid, X = X[column], X if column in named else X.drop(columns=[column])
            words["sort them by `qid`"] = (
                f"sort them by column {column!r}. (scikit-learn's "
                "`permutation_importance` shuffles this column too; "
                "`Ranker.importances` does not)"
            )
            words["`qid`"] = f"column {column!r}"
        if frames.is_frame(X) and columns is not None:
            lacking = [column for column in columns if column not in X.columns]
            if lacking:
                raise ValueError(
                    f"`X` lacks columns that `fit` had: {', '.join(lacking)}."
                )
            X = X[list(columns)]
        with messages.issuing_warnings():
            for argument, values in (("y", y), ("qid", qid), ("sample_weight", weight)):
                _warn_of_order(X, argument, values)
            found = RankingLists.from_arrays(
                X,
                y,
                group=group,
                qid=qid,
                weight=weight,
                missing=missing,
                categories=categories,
                texts=texts,
                embeddings=embeddings,
                context=context,
                spec=spec,
                text_words=text_words,
                embedding_inputs=embedding_inputs,
            )
        if found.weights is not None and not found.weights.any():
            raise ValueError(
                "`weight` is zero for all rows: there is nothing to learn."
            )
    return found


def of_kinds(
    data: DataConfig, texts: Sequence[str], embeddings: Sequence[str]
) -> dict[str, Any]:
    """Returns the arguments of `lists` that are settings of some of the columns."""
    check_kinds(data, texts, embeddings)
    inputs = bool(data.embedding_inputs)
    return {"text_words": data.text_words or TEXT_WORDS, "embedding_inputs": inputs}


def _warn_of_order(X: Any, argument: str, values: Any) -> None:
    """Warns if values have the index of a data frame in another order."""
    if not frames.is_frame(X) or not hasattr(values, "to_numpy"):
        return
    own, other = X.index, getattr(values, "index", X.index)
    if len(own) != len(other) or own.equals(other):
        return
    if own.is_unique and own.isin(other).all() and other.isin(own).all():
        messages.warn(
            f"The index of `{argument}` has the rows of `X` in another order. Rows are "
            "taken by their place: if you sorted one, sort the other."
        )


def _columns(argument: str, names: Sequence[str]) -> list[str]:
    """Returns the names of columns as texts."""
    found = checks.elements(argument, names, lambda _, name: name, "columns")
    return frames.column_names(found, f" in `{argument}`")


def any_groups(X: Any, most: int = _ROWS) -> list[int]:
    """Returns list sizes for a model whose scores do not depend on the list."""
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    return [most] * (rows // most) + [rows % most] * (rows % most > 0)


def held_out(train: RankingLists, config: TrainingConfig) -> data_splits.Splits:
    """Holds out a share of the queries for validation."""
    with as_settings.in_words():
        share = data_splits.held_out(config.data, ("train", "test"))
        parts = data_splits.hold_out(train.num_lists, share, config.data.random_seed)
    valid = train.select(parts["valid"])
    return data_splits.Splits(train.select(parts["train"]), valid, valid)


def only_one(eval_set: Any, group: Any, qid: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the features, labels, `group` and `qid` of the validation set.

    `eval_set` is `(X, y)`, or a list of one such pair; `group` and `qid` may then be
    lists of one, too.
    """
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set, group, qid = (
            each[0] if isinstance(each, list) and len(each) == 1 else each
            for each in (eval_set, group, qid)
        )
    if not isinstance(eval_set, tuple) or len(eval_set) != 2:
        raise ValueError(
            "`eval_set` must be features and labels, (X, y), of one set. Received: "
            f"{type(eval_set).__name__}."
        )
    return (*eval_set, group, qid)
