"""From the data flags to lists for training, validation and test."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pipelines.flags import shared_flags
from tfr_ext import data
from tfr_ext.training.sources import long_lists, wanted_labels

SPLITS = ("train", "valid", "test")


class Source(Protocol):
    """Where lists come from, as `--dataset` says."""

    @property
    def splits(self) -> Collection[str]:
        """Those of `SPLITS` that it has.

        Queries of 'train' are held out for 'valid' and 'test' where they are missing.
        """

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """Reads a split.

        Args:
            split: one of `splits`.
            num_features: width that the lists must have; None if any will do.

        Raises:
            ValueError: if the data has errors, or another width.
            FileNotFoundError: if there is no such file.
        """


@dataclasses.dataclass(frozen=True)
class Splits:
    """Lists to train on, to validate on after each epoch, and to test on at the end.

    Attributes:
        eval_cuts: what `--eval_list_size` did to 'valid' and 'test', see
            `LongLists.as_dict`; None without it.
        elwc_features: what the features are called in ELWC files; None if they come
            from others.
    """

    train: data.RankingLists | data.StreamedLists
    valid: data.RankingLists
    test: data.RankingLists
    eval_cuts: Mapping[str, Any] | None = None
    elwc_features: data.ElwcFeatures | None = None


def load(flags: Any, origin: Source | None = None) -> Splits:
    """Loads the data that the flags name, and says what it is.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.
        origin: where it is read from; `source(flags)` by default.

    Raises:
        ValueError: if flags do not fit each other, or the data has errors.
        FileNotFoundError: if there is no such file.
    """
    cuts = {
        name: long_lists.LongLists(flags, split)
        for name, split in zip(SPLITS, ("training", "validation", "test"))
    }
    origin = source(flags) if origin is None else origin
    if flags.stream:
        splits = _stream(flags, origin, cuts)
    else:
        found = _read(flags, origin, SPLITS, flags.num_features)
        train, valid, test = (cuts[name](found[name]) for name in SPLITS)
        splits = Splits(train, valid, test)
    splits = dataclasses.replace(
        splits, elwc_features=getattr(origin, "elwc_features", None)
    )
    if flags.eval_list_size is not None:
        done = {name: cuts[name].as_dict() for name in SPLITS[1:]}
        splits = dataclasses.replace(splits, eval_cuts=done)
    _describe_labels(flags)
    for name in SPLITS:
        print(describe(name, getattr(splits, name)))
    for cut in cuts.values():
        if cut.num_cut:
            print(cut.describe())
    return splits


def load_test(flags: Any, num_features: int | None) -> data.RankingLists:
    """Loads the lists to test on alone.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.
        num_features: width of the lists; None if nothing depends on it.

    Raises:
        ValueError: if flags do not fit each other, or the data has errors.
    """
    if num_features is not None and flags.num_features not in (None, num_features):
        raise ValueError(
            f"--num_features={flags.num_features}, but the model takes {num_features} "
            "features."
        )
    found = _read(flags, source(flags), ["test"], num_features or flags.num_features)
    lists = found["test"]
    if num_features not in (None, lists.num_features):
        raise ValueError(
            f"The model takes {num_features} features, and the lists of "
            f"--dataset={flags.dataset} have {lists.num_features}."
        )
    _describe_labels(flags)
    return lists


def describe(name: str, lists: data.RankingLists | data.StreamedLists) -> str:
    """Returns a line about some lists."""
    return describe_counts(
        name,
        queries=lists.num_lists,
        items=lists.num_items,
        num_features=lists.num_features,
        list_sizes=(lists.lengths.min(), lists.lengths.max()),
        label_counts=lists.label_counts,
        empty=lists.num_empty,
    )


def describe_counts(
    name: str,
    queries: int,
    items: int,
    num_features: int,
    list_sizes: tuple[int, int],
    label_counts: Mapping[float, int],
    empty: int,
) -> str:
    """Returns a line about lists of which only these numbers are at hand.

    Args:
        name: what they are called.
        queries: number of lists.
        items: number of items.
        num_features: width of the features.
        list_sizes: items of the shortest and of the longest list.
        label_counts: number of items by label; empty if it is not known.
        empty: lists without a label above 0.
    """
    shown = "of many values"
    if len(label_counts) > 10:
        shown = f"{min(label_counts):g} to {max(label_counts):g}"
    elif label_counts:
        shown = " ".join(f"{g:g}:{c:,}" for g, c in sorted(label_counts.items()))
    return (
        f"{name}: {queries:,} queries, {items:,} items of {num_features} features, "
        f"list size {list_sizes[0]} to {list_sizes[1]}, labels {shown}, "
        f"{empty:,} queries without a relevant item"
    )


def source(flags: Any) -> Source:
    """Returns the source that the flags name.

    Raises:
        ValueError: if there is none, or flags do not fit each other.
    """
    if flags.dataset == "synthetic":
        return _Synthetic(flags)
    if flags.dataset == "text":
        return _Text(flags)
    # Those modules need this one.
    if flags.dataset == "elwc":
        from tfr_ext.training.sources import elwc_source

        return elwc_source.ElwcSource(flags)
    from tfr_ext.training.sources import tfds_source

    return tfds_source.TfdsSource(flags)


def _read(
    flags: Any, origin: Source, wanted: Sequence[str], num_features: int | None
) -> dict[str, data.RankingLists]:
    """Reads splits, or holds them out of 'train'; their labels as the flags want."""
    with_labels = wanted_labels.from_flags(flags)
    fractions = held_out(flags, origin.splits)  # The same, whatever is wanted.
    found: dict[str, data.RankingLists] = {}
    if "train" in wanted or any(split in fractions for split in wanted):
        train = with_labels(origin.read("train", num_features))
        num_features = train.num_features
        found = _split(train, fractions, shared_flags.data_seed(flags))
    return {
        split: found[split]
        if split in found
        else with_labels(origin.read(split, num_features))
        for split in wanted
    }


def _describe_labels(flags: Any) -> None:
    wanted = wanted_labels.from_flags(flags)
    if wanted != wanted_labels.AS_GIVEN:
        print(f"Labels: {wanted.describe()}.")


def _stream(
    flags: Any, origin: Any, cuts: Mapping[str, long_lists.LongLists]
) -> Splits:
    """Reads 'valid' and 'test', and of 'train' what streaming wants to know."""
    with_labels = wanted_labels.from_flags(flags)
    if not hasattr(origin, "stream"):
        raise ValueError(
            f"--stream is given, but --dataset is {flags.dataset!r}. Only "
            "--dataset=elwc can be read again and again."
        )
    for split in SPLITS:
        if split not in origin.splits:
            raise ValueError(
                f"--stream holds no queries out of the training files: it needs "
                f"--{split}_path, or a --data_dir that has {split!r}."
            )

    def prepared(piece: data.RankingLists, number: int) -> data.RankingLists:
        return cuts["train"](with_labels(piece), number)

    train = origin.stream("train", flags.num_features, prepared)
    valid, test = (
        cuts[split](with_labels(origin.read(split, train.num_features)))
        for split in SPLITS[1:]
    )
    return Splits(train, valid, test)


def paths(flags: Any) -> list[str]:
    """Returns the files and directories that the data flags name.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.
    """
    named = [path for split in SPLITS for path in getattr(flags, f"{split}_path")]
    matched = [path for pattern in named for path in glob.glob(pattern)]
    named += [path for path in (flags.data_dir, flags.manual_dir) if path]
    return [*named, *matched]


def reject_paths(flags: Any) -> None:
    """Checks that no files are named where the source has no use for them.

    Raises:
        ValueError: if some are.
    """
    for split in SPLITS:
        if getattr(flags, f"{split}_path"):
            raise ValueError(
                f"--{split}_path is given, but --dataset is {flags.dataset!r}. "
                "Add --dataset=text, or elwc."
            )


class _Text:
    """LETOR text; a `Source`."""

    def __init__(self, flags: Any):
        """Finds out which splits have files.

        Raises:
            ValueError: if --missing_value is not a number that features may have.
        """
        if not np.isfinite(np.float32(flags.missing_value)):
            raise ValueError(
                "--missing_value must be a finite number. "
                f"Received: {flags.missing_value}."
            )
        self._flags = flags
        self.splits = [s for s in SPLITS if getattr(flags, f"{s}_path")]

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """See `Source`."""
        paths = getattr(self._flags, f"{split}_path")
        if not paths:
            other = "" if self._flags.test_path else " (or --test_path to evaluate)"
            raise ValueError(f"--dataset=text needs --{split}_path{other}.")
        return data.read_letor(paths, num_features, self._flags.missing_value)


class _Synthetic:
    """Synthetic lists, all in 'train'; a `Source`."""

    splits = ("train",)

    def __init__(self, flags: Any):
        """Checks the flags."""
        reject_paths(flags)
        if flags.synthetic_query_features > flags.synthetic_document_features:
            raise ValueError(
                f"--synthetic_query_features={flags.synthetic_query_features} must not "
                "be more than --synthetic_document_features="
                f"{flags.synthetic_document_features}."
            )
        self._flags = flags

    def read(self, split: str, num_features: int | None) -> data.RankingLists:
        """See `Source`."""
        flags = self._flags
        return data.synthetic_lists(
            num_lists=flags.synthetic_num_queries,
            list_size=flags.synthetic_list_size,
            num_document_features=flags.synthetic_document_features,
            num_query_features=flags.synthetic_query_features,
            max_label=flags.synthetic_max_label,
            integer_labels=flags.synthetic_integer_labels,
            shared_columns=flags.synthetic_shared_columns,
            seed=shared_flags.data_seed(flags),
        )


def held_out(flags: Any, splits: Collection[str]) -> dict[str, float]:
    """Returns which splits are held out of 'train', and what share of its queries.

    Args:
        flags: parsed flags, see `pipelines.flags.define_data_flags`.
        splits: the splits that the source has.
    """
    return {
        split: getattr(flags, f"{split}_fraction")
        for split in SPLITS[1:]
        if split not in splits
    }


def hold_out(
    num_lists: int, fractions: Mapping[str, float], seed: int
) -> dict[str, np.ndarray]:
    """Chooses which lists each split has, at least one each; 'train' has the rest.

    Args:
        num_lists: number of lists.
        fractions: share of the lists of each split that is held out.
        seed: seed of the choice.

    Returns:
        Indices of lists, rising.

    Raises:
        ValueError: if there are too few lists.
    """
    order = np.random.default_rng(seed).permutation(num_lists)
    parts, start = {}, 0
    for name, fraction in fractions.items():
        count = max(1, round(fraction * num_lists))
        # In file order, as the other queries are.
        parts[name] = np.sort(order[start : start + count])
        start += count
    if start >= num_lists:
        raise ValueError(
            f"{num_lists} queries are too few to hold out "
            f"{' and '.join(f'{v:g} for {k}' for k, v in fractions.items())}."
        )
    return {"train": np.sort(order[start:]), **parts}


def _split(
    lists: data.RankingLists, fractions: Mapping[str, float], seed: int
) -> dict[str, data.RankingLists]:
    """Holds out shares of the queries."""
    if not fractions:
        return {"train": lists}
    chosen = hold_out(lists.num_lists, fractions, seed)
    return {split: lists.select(which) for split, which in chosen.items()}
