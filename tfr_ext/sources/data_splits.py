"""Loads the training, validation and test lists that the settings name."""

from __future__ import annotations

import dataclasses
import glob
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tfr_ext.core import messages
from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.data.batches.streams import StreamedLists
from tfr_ext.data.elwc.proto_features import ElwcFeatures
from tfr_ext.data.features import FeatureSpec
from tfr_ext.data.lists import RankingLists
from tfr_ext.settings.data_checks import AUTO
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import long_lists, named_sources, wanted_labels
from tfr_ext.sources.source import SPLITS, Source

# Settings of where lists are read from.
_PLACES = ("dataset", "data_dir", "manual_dir", "stream")


@dataclasses.dataclass(frozen=True)
class Splits:
    """Lists to train on, to validate on after each epoch, and to test on at the end.

    Attributes:
        eval_cuts: what `eval_list_size` did to 'valid' and 'test', see
            `LongLists.as_dict`; None without it.
        elwc_features: the names of the features in ELWC files; None if they come from
            other files.
        digest: the SHA-256 digest of their content as it was read.
        held_out: see `held_out_by`.
    """

    train: RankingLists | StreamedLists
    valid: RankingLists
    test: RankingLists
    eval_cuts: Mapping[str, Any] | None = None
    elwc_features: ElwcFeatures | None = None
    digest: str = ""
    held_out: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def filling(self, config: DataConfig) -> str | None:
        """Returns how a model fills in missing features: 'mean', 'indicator' or not."""
        if config.missing == AUTO:
            every = self.train, self.valid, self.test
            return "mean" if any(lists.has_missing for lists in every) else None
        return config.missing if config.keeps_missing else None


class MemorySource(Source):
    """Splits that the caller has read or made."""

    splits = SPLITS

    def __init__(self, config: DataConfig, splits: Splits):
        """Checks that the settings do not name other lists."""
        super().__init__(config)
        for name in (*_PLACES, *(f"{split}_path" for split in SPLITS)):
            value = getattr(config, name)
            if value != getattr(DataConfig(), name):
                raise ValueError(
                    f"{given(name, value)} has no effect, because `splits` has the "
                    f"lists. Leave out `{name}` or `splits`."
                )
        if isinstance(splits.train, StreamedLists):
            raise ValueError(
                "`splits.train` must be RankingLists, which are in memory. Received: "
                "StreamedLists."
            )
        self._original = splits
        self.elwc_features = splits.elwc_features

    def _read(self, split: str, num_features: int | None) -> RankingLists:
        lists: RankingLists = getattr(self._original, split)
        if num_features not in (None, lists.num_features):
            raise ValueError(
                f"`splits.{split}` must have {num_features} features. Received: "
                f"{lists.num_features}."
            )
        return lists


def in_memory(config: DataConfig, splits: Splits | None) -> MemorySource | None:
    """Returns the source of lists in memory, if there are any; see `MemorySource`."""
    return None if splits is None else MemorySource(config, splits)


def load(config: DataConfig, origin: Source | None = None) -> Splits:
    """Loads the data that the settings name, and prints a description.

    Args:
        config: settings of the data.
        origin: where the data is read from; by default, where the settings say.

    Raises:
        ValueError: If settings do not fit each other, or the data has errors.
        FileNotFoundError: If there is no such file.
    """
    cuts = {
        name: long_lists.LongLists(config, split)
        for name, split in zip(SPLITS, ("training", "validation", "test"))
    }
    origin = origin or named_sources.source(config)
    if config.stream:
        splits = _stream(config, origin, cuts)
    else:
        found = _read(config, origin, SPLITS, config.num_features)
        train, valid, test = (cuts[name](found[name]) for name in SPLITS)
        splits = Splits(train, valid, test)
    splits = dataclasses.replace(
        splits,
        elwc_features=origin.elwc_features,
        digest=origin.digest(),
        held_out=held_out_by(config, origin),
    )
    if cuts["test"].cuts:
        done = {name: cuts[name].as_dict() for name in SPLITS[1:]}
        splits = dataclasses.replace(splits, eval_cuts=done)
    _describe_labels(config)
    for name in SPLITS:
        say(describe(name, getattr(splits, name)))
    for cut in cuts.values():
        if cut.num_cut:
            say(cut.describe())
    if splits.train.has_weights:
        say("The loss uses the weights of the items; metrics do not.")
    return splits


def load_test(
    config: DataConfig,
    num_features: int | None,
    feature_names: Sequence[str] | None = None,
    with_valid: bool = False,
    spec: FeatureSpec | None = None,
    trained: Sequence[Mapping[str, float]] = (),
) -> dict[str, RankingLists]:
    """Loads only the lists to test on, and those to validate on where that is cheap.

    Args:
        config: settings of the data.
        num_features: number of features of the lists; None if nothing depends on it.
        feature_names: columns of a table that hold the features, unless the settings
            name some, or those of ELWC files, see `ElwcSchema.columns`.
        with_valid: whether 'valid' is loaded too, if it need not be held out of
            training lists that are not read for 'test' either.
        spec: what the features of a model are, if they are not only numbers.
        trained: what `held_out_by` was in the training of each model, if it is known.
            Where it differs, a warning says that the model may know the lists.
    """
    if num_features is not None and config.num_features not in (None, num_features):
        raise ValueError(
            f"{given('num_features', config.num_features)}, but the model takes "
            f"{num_features} features."
        )
    origin = named_sources.source(config)
    if num_features is not None:
        origin.know(feature_names or (), spec)
    wanted = ["test"]
    if with_valid and ("valid" in origin.splits or "test" not in origin.splits):
        wanted = ["valid", "test"]
    found = _read(config, origin, wanted, num_features or config.num_features)
    for lists in found.values():
        if num_features not in (None, lists.num_features):
            raise ValueError(
                f"The model takes {num_features} features, but the lists of "
                f"{given('dataset', config.dataset)} have {lists.num_features}."
            )
    _describe_labels(config)
    by = held_out_by(config, origin)
    different = [other for other in trained if other != by]
    if by and different:
        others = " ".join(f"--{name}={value}" for name, value in different[0].items())
        messages.warn(
            "A part of the training queries is held out to test on, but not the part "
            f"that was in training ({others or 'there, the test had its own files'}). "
            "If the model was trained on these files, it knows the queries."
        )
    return {split: found[split] for split in reversed(wanted)}


def describe(name: str, lists: RankingLists | StreamedLists) -> str:
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
    """Returns a line about lists of which only these numbers are known.

    `list_sizes` are the items of the shortest and of the longest list, and `empty`
    counts lists without a label above 0. `num_features` is 0 if there are none, and
    `label_counts` is empty if it is not known.
    """
    shown = "of many values"
    if len(label_counts) > 10:
        shown = f"{min(label_counts):g} to {max(label_counts):g}"
    elif label_counts:
        shown = " ".join(f"{g:g}:{c:,}" for g, c in sorted(label_counts.items()))
    width = f" of {num_features} features" if num_features else ""
    return (
        f"{name}: {queries:,} queries, {items:,} items{width}, "
        f"list size {list_sizes[0]} to {list_sizes[1]}, labels {shown}, "
        f"{empty:,} queries without a relevant item"
    )


def _read(
    config: DataConfig, origin: Source, wanted: Sequence[str], num_features: int | None
) -> dict[str, RankingLists]:
    """Reads splits, or holds them out of 'train', with the labels of the settings."""
    with_labels = wanted_labels.from_config(config)
    found: dict[str, RankingLists] = {}
    if "train" in wanted or not {*wanted} <= {*origin.splits}:
        # The same split, whichever parts are wanted.
        fractions = held_out(config, origin.splits)
        train = with_labels(origin.read("train", num_features))
        num_features = train.num_features
        found = _split(train, fractions, config.random_seed)
    return {
        split: found[split]
        if split in found
        else with_labels(origin.read(split, num_features))
        for split in wanted
    }


def _describe_labels(config: DataConfig) -> None:
    wanted = wanted_labels.from_config(config)
    if wanted != wanted_labels.AS_GIVEN:
        say(f"Labels: {wanted.describe()}.")


def _stream(
    config: DataConfig, origin: Source, cuts: Mapping[str, long_lists.LongLists]
) -> Splits:
    """Reads 'valid' and 'test', and the facts about 'train' that streaming needs."""
    with_labels = wanted_labels.from_config(config)
    origin.check_stream()

    def prepared(piece: RankingLists, number: int) -> RankingLists:
        return cuts["train"](with_labels(piece), number)

    train = origin.stream("train", config.num_features, prepared)
    valid, test = (
        cuts[split](with_labels(origin.read(split, train.num_features)))
        for split in SPLITS[1:]
    )
    return Splits(train, valid, test)


def paths(config: DataConfig) -> list[str]:
    """Returns the files and directories that the settings name."""
    named = [path for split in SPLITS for path in getattr(config, f"{split}_path")]
    named += config.rerank_run
    matched = [path for pattern in named for path in glob.glob(pattern)]
    named += [path for path in (config.data_dir, config.manual_dir) if path]
    return [*named, *matched]


def is_random(config: DataConfig) -> bool:
    """Returns whether the lists that are evaluated depend on a seed."""
    cut = config.list_size is not None or config.eval_list_size is not None
    return cut or named_sources.kind(config.dataset).holds_out(config)


def with_missing(config: DataConfig, missing: str = "mean") -> DataConfig:
    """Returns settings with which missing features are read as a model takes them.

    `missing` is the setting of the model's training; by default, that of trees, which
    have all of them as NaN.
    """
    if not named_sources.kind(config.dataset).has_missing:
        return config  # There, each feature has a value.
    if config.dataset == "table":  # Where no number takes the place of a cell.
        missing = "mean"
    return dataclasses.replace(config, missing=missing)


def held_out_by(config: DataConfig, origin: Source) -> dict[str, float]:
    """Returns the settings that choose the lists to test on among those of 'train'.

    There are none for lists that a seed draws, because each of these is new.
    """
    if "test" in origin.splits or origin.is_drawn:
        return {}
    shares = held_out(config, origin.splits)
    named = {f"{split}_fraction": share for split, share in shares.items()}
    return {"data_seed": config.random_seed, **named}


def held_out(config: DataConfig, splits: Collection[str]) -> dict[str, float]:
    """Returns which splits are held out of 'train', and the share of its queries."""
    shares = {
        split: getattr(config, f"{split}_fraction")
        for split in SPLITS[1:]
        if split not in splits
    }
    for split, share in shares.items():
        if not share:
            use = {"valid": "validate", "test": "test"}[split]
            raise ValueError(
                f"{given(f'{split}_fraction', share)} holds out no query to {use} on: "
                f"give `{split}_path`, or a share above 0."
            )
    return shares


def hold_out(
    num_lists: int, fractions: Mapping[str, float], seed: int
) -> dict[str, np.ndarray]:
    """Chooses the lists of each split, at least one each; 'train' has the rest.

    Returns their indices, in increasing order.
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
    lists: RankingLists, fractions: Mapping[str, float], seed: int
) -> dict[str, RankingLists]:
    """Holds out shares of the queries."""
    if not fractions:
        return {"train": lists}
    chosen = hold_out(lists.num_lists, fractions, seed)
    return {split: lists.select(which) for split, which in chosen.items()}
