"""Describes prepared shards, for the manifest and for the user."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.preparing.work_units import Written
from tfr_ext.data.elwc import manifest, writing
from tfr_ext.sources import data_splits
from tfr_ext.sources.source import SPLITS


def describe(found: Sequence[Written], source: Mapping[str, Any]) -> manifest.Manifest:
    """Describes what was written.

    Args:
        found: what each unit wrote, in the order of the units.
        source: the settings that tell what the source is.

    Raises:
        ValueError: if shards differ in their number of features or of grades.
    """
    records = _by_split(found)
    every = [record for split in records.values() for record in split]
    for record in every:
        widths = record.num_features, record.num_grades
        if widths != (every[0].num_features, every[0].num_grades):
            raise ValueError(
                f"{record.shard.name} has {widths[0]} features and {widths[1]} grades "
                f"of label distributions, and {every[0].shard.name} has "
                f"{every[0].num_features} and {every[0].num_grades}."
            )
    return manifest.Manifest(
        num_features=every[0].num_features,
        num_grades=every[0].num_grades,
        source=source,
        splits={
            split: manifest.Split(
                shards=[record.shard for record in parts],
                labels=_label_counts(parts),
                max_label=max(record.max_label for record in parts),
                max_list_size=max(record.max_list_size for record in parts),
            )
            for split, parts in records.items()
        },
    )


def _by_split(found: Sequence[Written]) -> dict[str, list[writing.Record]]:
    return {
        split: [f.records[split] for f in found if split in f.records]
        for split in SPLITS
        if any(split in f.records for f in found)
    }


def _label_counts(records: Sequence[writing.Record]) -> dict[str, int]:
    """Sums counts of labels; empty if a shard has none, or if there are too many."""
    total: collections.Counter[str] = collections.Counter()
    for record in records:
        if not record.labels:
            return {}
        total.update(record.labels)
    if len(total) > writing.MAX_COUNTED_LABELS:
        return {}
    return dict(sorted(total.items(), key=lambda item: float(item[0])))


def summary(
    content: manifest.Manifest, found: Sequence[Written], directory: str
) -> str:
    """Returns what is printed at the end.

    Args:
        content: the manifest.
        found: what each unit wrote.
        directory: where the shards are.
    """
    lines = []
    for split, records in _by_split(found).items():
        entry = content.splits[split]
        text = data_splits.describe_counts(
            split,
            queries=entry.queries,
            items=entry.items,
            num_features=content.num_features,
            list_sizes=(min(r.min_list_size for r in records), entry.max_list_size),
            label_counts={float(label): count for label, count in entry.labels.items()},
            empty=sum(record.empty_queries for record in records),
        )
        lines.append(f"{text}, shards: {len(records)}")
    size = sum(s.bytes for split in content.splits.values() for s in split.shards)
    shards = sum(len(split.shards) for split in content.splits.values())
    lines.append(
        f"{shards:,} shards, {size / 1e6:,.1f} MB. To train on them:\n"
        f"python -m pipelines.train --dataset=elwc --data_dir={directory} ..."
    )
    return "\n".join(lines)
