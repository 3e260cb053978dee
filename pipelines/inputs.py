"""From the data flags to lists for training, validation and test."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfr_ext import data


@dataclasses.dataclass(frozen=True)
class Splits:
    """Lists to train on, to validate on after each epoch, and to test on at the end."""

    train: data.RankingLists
    valid: data.RankingLists
    test: data.RankingLists


def load(flags: Any) -> Splits:
    """Loads the data that the flags name, and says what it is.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.

    Raises:
        ValueError: if flags do not fit each other, or a file has errors.
        FileNotFoundError: if there is no such file.
    """
    splits = _text(flags) if flags.dataset == "text" else _synthetic(flags)
    for name in ("train", "valid", "test"):
        print(describe(name, getattr(splits, name)))
    if flags.list_size is not None:
        train, cut = data.truncate(splits.train, flags.list_size, flags.seed)
        if cut:
            print(
                f"--list_size={flags.list_size} cut {cut:,} of {train.num_lists:,} "
                f"training lists; {splits.train.num_items - train.num_items:,} of "
                f"{splits.train.num_items:,} items are left out."
            )
        splits = dataclasses.replace(splits, train=train)
    return splits


def load_test(flags: Any, num_features: int | None) -> data.RankingLists:
    """Loads the lists to test on alone.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.
        num_features: width of the lists; None if nothing depends on it.

    Raises:
        ValueError: if flags do not fit each other, or a file has errors.
    """
    if flags.dataset != "text":
        lists = _synthetic(flags).test
        if num_features not in (None, lists.num_features):
            raise ValueError(
                f"The model takes {num_features} features, and the synthetic lists "
                f"have {lists.num_features}."
            )
        return lists
    if not flags.test_path:
        raise ValueError("--dataset=text needs --test_path.")
    if flags.num_features is not None:
        if num_features not in (None, flags.num_features):
            raise ValueError(
                f"--num_features={flags.num_features}, but the model takes "
                f"{num_features} features."
            )
        num_features = flags.num_features
    return data.read_letor(flags.test_path, num_features, flags.missing_value)


def describe(name: str, lists: data.RankingLists) -> str:
    """Returns a line about some lists."""
    grades, counts = np.unique(lists.labels, return_counts=True)
    if len(grades) <= 10:
        labels = " ".join(f"{g:g}:{c:,}" for g, c in zip(grades, counts))
    else:
        labels = f"{grades[0]:g} to {grades[-1]:g}"
    empty = np.add.reduceat(lists.labels > 0, lists.row_splits[:-1]) == 0
    return (
        f"{name}: {lists.num_lists:,} queries, {lists.num_items:,} items of "
        f"{lists.num_features} features, list size {lists.lengths.min()} to "
        f"{lists.lengths.max()}, labels {labels}, "
        f"{int(empty.sum()):,} queries without a relevant item"
    )


def _text(flags: Any) -> Splits:
    if not flags.train_path:
        raise ValueError("--dataset=text needs --train_path.")
    train = data.read_letor(flags.train_path, flags.num_features, flags.missing_value)

    def read(paths: list) -> data.RankingLists:
        return data.read_letor(paths, train.num_features, flags.missing_value)

    held_out = {}
    if not flags.valid_path:
        held_out["valid"] = flags.valid_fraction
    if not flags.test_path:
        held_out["test"] = flags.test_fraction
    parts = _split(train, held_out, flags.seed)
    return Splits(
        train=parts["train"],
        valid=read(flags.valid_path) if flags.valid_path else parts["valid"],
        test=read(flags.test_path) if flags.test_path else parts["test"],
    )


def _synthetic(flags: Any) -> Splits:
    for split in ("train", "valid", "test"):
        if getattr(flags, f"{split}_path"):
            raise ValueError(
                f"--{split}_path is given, but --dataset is 'synthetic'. "
                "Add --dataset=text."
            )
    if flags.synthetic_query_features > flags.synthetic_document_features:
        raise ValueError(
            f"--synthetic_query_features={flags.synthetic_query_features} must not be "
            "more than --synthetic_document_features="
            f"{flags.synthetic_document_features}."
        )
    lists = data.synthetic_lists(
        num_lists=flags.synthetic_num_queries,
        list_size=flags.synthetic_list_size,
        num_document_features=flags.synthetic_document_features,
        num_query_features=flags.synthetic_query_features,
        max_label=flags.synthetic_max_label,
        integer_labels=flags.synthetic_integer_labels,
        shared_columns=flags.synthetic_shared_columns,
        seed=flags.seed,
    )
    fractions = {"valid": flags.valid_fraction, "test": flags.test_fraction}
    return Splits(**_split(lists, fractions, flags.seed))


def _split(lists: data.RankingLists, fractions: dict, seed: int) -> dict:
    """Holds out shares of the queries, at least one each; 'train' has the rest."""
    order = np.random.default_rng(seed).permutation(lists.num_lists)
    parts, start = {}, 0
    for name, fraction in fractions.items():
        count = max(1, round(fraction * lists.num_lists))
        # In file order, as the other queries are.
        parts[name] = lists.select(np.sort(order[start : start + count]))
        start += count
    if start >= lists.num_lists:
        raise ValueError(
            f"{lists.num_lists} queries are too few to hold out "
            f"{' and '.join(f'{v:g} for {k}' for k, v in fractions.items())}."
        )
    parts["train"] = lists.select(np.sort(order[start:])) if start else lists
    return parts
