"""Converts any data to shards of ELWC TFRecords, on one machine or many.

python -m pipelines.prepare --dataset=text --train_path=FILES --output_dir=DIR

Killed and started again, it goes on. Training reads the shards with --dataset=elwc
--data_dir=DIR.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from absl import flags

import tfr_ext
from pipelines import command, inputs, prepare_beam, prepare_sources, prepare_units
from pipelines import flags as shared_flags
from pipelines.prepare_units import Output, Unit, Written
from tfr_ext.data import elwc_writer, manifest
from tfr_ext.data.letor_ranges import Survey

FLAGS = flags.FLAGS

_PLAN_FILE = "plan.json"
_SHARD = re.compile(r"(train|valid|test)-\d{5}-of-\d{5}\.tfrecord")
# What tells which lists there are. Training does the rest, with the other data flags.
_SOURCE_FLAGS = re.compile(
    "dataset|.*_path|.*_fraction|data_dir|manual_dir|num_features|missing_value|seed"
    "|synthetic_.*|elwc_.*"
)
_Found = TypeVar("_Found", Survey, Written)


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    flags.adopt_module_key_flags(shared_flags)  # so that --helpshort lists them
    flags.DEFINE_string(
        "output_dir",
        None,
        "Directory that gets the shards and their manifest.json, on any file system "
        "that TensorFlow knows.",
        required=True,
    )
    flags.DEFINE_float(
        "shard_megabytes",
        64,
        "About how much text, or how many features, a shard is made of. The shards of "
        "--dataset=elwc are its files.",
        lower_bound=1e-6,
    )
    flags.DEFINE_bool(
        "overwrite", False, "Start anew in an --output_dir that has other shards."
    )
    flags.DEFINE_multi_string(
        "beam_args",
        [],
        "An option of Apache Beam, such as --beam_args=--runner=FlinkRunner. "
        "Repeatable. All work is done in this process if left out.",
    )


def prepare() -> None:
    """Prepares as the flags say."""
    directory = FLAGS.output_dir
    source_flags = _source_flags()
    division = prepare_sources.divide(
        FLAGS, source_flags, max(1, int(FLAGS.shard_megabytes * 1e6))
    )
    plan = _plan(source_flags, division.files)
    if _is_finished(directory, plan):
        return
    unknown = prepare_beam.unknown_options(FLAGS.beam_args)
    if unknown:
        print(f"Passed on, but not known to Beam itself: {' '.join(unknown)}")
    units = _units(directory, division)
    found = _run(units, prepare_units.written)
    _check_queries(units, found)
    if _plan(source_flags, division.files) != plan:
        raise ValueError(
            "Files of the source changed while they were read. Start anew, with "
            "--overwrite."
        )
    content = _manifest(found, source_flags)
    prepare_units.write_text(
        os.path.join(directory, manifest.FILE_NAME), content.as_json()
    )
    _clear(
        os.path.join(directory, prepare_units.WORK_DIRECTORY), lambda n: n != _PLAN_FILE
    )
    print(_summary(content, found))


def _source_flags() -> dict[str, Any]:
    """Returns the flags that tell which lists there are, and tells of the others."""
    every = FLAGS.flags_by_module_dict()[shared_flags.__name__]
    kept = {}
    for flag in every:
        kind = flag.name.partition("_")[0]
        if not _SOURCE_FLAGS.fullmatch(flag.name):
            if flag.value != flag.default:
                print(f"{flag.serialize()} is left to training; shards are as given.")
        elif kind not in ("synthetic", "elwc") or kind == FLAGS.dataset:
            kept[flag.name] = flag.value
    return kept


def _plan(source_flags: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Returns what makes the shards what they are, as JSON has it."""
    stats = {path: tf.io.gfile.stat(path) for path in files}
    return {
        "tfr_ext": tfr_ext.__version__,
        "flags": {**source_flags, "shard_megabytes": FLAGS.shard_megabytes},
        "files": {path: [s.length, s.mtime_nsec] for path, s in stats.items()},
    }


def _is_finished(directory: str, plan: dict[str, Any]) -> bool:
    """Tells whether the directory has all of the plan's shards, and else begins it.

    Raises:
        ValueError: if it has shards of another plan.
    """
    work = os.path.join(directory, prepare_units.WORK_DIRECTORY)
    path = os.path.join(work, _PLAN_FILE)
    manifest_path = os.path.join(directory, manifest.FILE_NAME)
    if FLAGS.overwrite:
        if tf.io.gfile.exists(manifest_path):
            tf.io.gfile.remove(manifest_path)  # First: without it nothing is finished.
        _clear(directory, _SHARD.fullmatch)
        _clear(work, lambda name: True)
    finished = tf.io.gfile.exists(manifest_path)
    if tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as file:
            differences = _differences(json.loads(file.read()), plan)
        if differences:
            raise ValueError(
                f"--output_dir={directory} has shards of something else:\n  "
                + "\n  ".join(differences)
                + "\nName another directory, or start anew with --overwrite."
            )
        if finished:
            print(f"The shards in {directory} are finished: there is nothing to do.")
            return True
        print(f"Going on with the shards in {directory}.")
        _clear(work, lambda name: name.endswith(".writing") or name == "error.json")
        return False
    if finished or any(map(_SHARD.fullmatch, _names(directory))):
        raise ValueError(
            f"--output_dir={directory} has shards, and no {_PLAN_FILE} that tells of "
            "what. Name another directory, or start anew with --overwrite."
        )
    _clear(work, lambda name: True)  # An --overwrite may have been killed.
    tf.io.gfile.makedirs(work)
    prepare_units.write_text(path, json.dumps(plan, indent=1))
    return False


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Returns a line for each flag and file that is another now."""
    lines = []
    if then["tfr_ext"] != now["tfr_ext"]:
        lines.append(f"tfr_ext {then['tfr_ext']} then, {now['tfr_ext']} now")
    for kind, mark in (("flags", "--"), ("files", "")):
        for name in dict.fromkeys([*then[kind], *now[kind]]):
            old, new = (x[kind].get(name, "(not there)") for x in (then, now))
            if old == new:
                continue
            if mark:
                lines.append(f"--{name}={old} then, {new} now")
            else:
                lines.append(f"{name}: [bytes, time of change] {old} then, {new} now")
    return lines


def _clear(directory: str, is_ours: Callable[[str], Any]) -> None:
    """Removes files of a directory."""
    for name in _names(directory):
        if is_ours(name):
            tf.io.gfile.remove(os.path.join(directory, name))


def _names(directory: str) -> list[str]:
    """Returns what is in a directory, if it is there."""
    return tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []


def _units(directory: str, division: prepare_sources.Division) -> list[Unit]:
    """Plans what each worker reads and writes."""
    pieces = division.pieces
    fractions = inputs.held_out(FLAGS, pieces)
    num_features, has_doc_ids = FLAGS.num_features, True
    chosen: list[dict[str, np.ndarray]] = []
    needs_width = division.needs_width and num_features is None
    if fractions or needs_width:
        reasons = [f"hold out queries for {split!r}" for split in fractions]
        if needs_width:
            reasons.append("find the number of features (--num_features spares that)")
        print(f"Reading the training data once before, to {', '.join(reasons)}.")
        surveys = _survey(directory, pieces["train"])
        num_features = max(survey.num_features for survey in surveys)
        if fractions:
            # Else training would find them in one split and miss them in another.
            has_doc_ids = all(survey.has_doc_ids for survey in surveys)
            chosen = _divide_lists([s.queries for s in surveys], fractions)
    parts = [
        (split, index, piece)
        for split in inputs.SPLITS
        for index, piece in enumerate(pieces.get(split, []))
    ]
    wanted = [
        chosen[index] if chosen and split == "train" else {split: None}
        for split, index, _ in parts
    ]
    totals = collections.Counter(split for splits in wanted for split in splits)
    counts: collections.Counter[str] = collections.Counter()
    units = []
    for (split, index, piece), splits in zip(parts, wanted):
        outputs = []
        for name, which in splits.items():
            shard = f"{name}-{counts[name]:05}-of-{totals[name]:05}.tfrecord"
            counts[name] += 1
            outputs.append(Output(name, shard, which))
        units.append(
            Unit(
                name=f"{split}-{index:05}",
                directory=directory,
                piece=piece,
                num_features=num_features,
                has_doc_ids=has_doc_ids if split == "train" else True,
                outputs=tuple(outputs),
            )
        )
    return units


def _survey(directory: str, pieces: Sequence[prepare_sources.Piece]) -> list[Survey]:
    """Reads the training data once, before it is written."""
    units = [
        Unit(f"survey-{index:05}", directory, piece, FLAGS.num_features)
        for index, piece in enumerate(pieces)
    ]
    surveys = _run(units, prepare_units.surveyed)
    print(
        f"{sum(s.queries for s in surveys):,} queries, "
        f"{max(s.num_features for s in surveys):,} features"
    )
    return surveys


def _divide_lists(
    queries: Sequence[int], fractions: Mapping[str, float]
) -> list[dict[str, np.ndarray]]:
    """Returns for each piece which of its lists go to which split, if any do."""
    parts = inputs.hold_out(sum(queries), fractions, FLAGS.seed)
    bounds = np.cumsum([0, *queries])
    divided = []
    for start, end in zip(bounds, bounds[1:]):
        inside = {
            split: chosen[slice(*np.searchsorted(chosen, [start, end]))] - start
            for split, chosen in parts.items()
        }
        divided.append({split: which for split, which in inside.items() if len(which)})
    return divided


def _run(units: Sequence[Unit], found: Callable[[Unit], _Found | None]) -> list[_Found]:
    """Does the work of those units that are not finished, and returns all results."""
    left = [unit for unit in units if found(unit) is None]
    if len(left) < len(units):
        print(
            f"{len(units) - len(left):,} of {len(units):,} pieces were finished before."
        )
    if left:
        prepare_beam.run(left, prepare_units.work, FLAGS.beam_args)
    prepare_units.raise_error(FLAGS.output_dir)
    results = [found(unit) for unit in units]
    missing = [unit.name for unit, result in zip(units, results) if result is None]
    if missing:
        raise ValueError(
            f"{len(missing):,} of {len(units):,} pieces are not in {FLAGS.output_dir} "
            f"though Beam has ended, such as {missing[0]}: do its workers write there? "
            "Started again, this command goes on."
        )
    return [result for result in results if result is not None]


def _check_queries(units: Sequence[Unit], found: Sequence[Written]) -> None:
    """Raises an error if a query of a split is in two pieces."""
    first: dict[tuple[str, str], Unit] = {}
    for unit, result in zip(units, found):
        split = unit.name.partition("-")[0]
        for query in result.query_ids:
            other = first.setdefault((split, query), unit)
            if other is not unit:
                raise ValueError(
                    f"{unit.piece.locate(query)}: query {query!r} of the {split} data "
                    f"began before, at {other.piece.locate(query)}; expected the lines "
                    "of a query next to each other in one file."
                )


def _manifest(
    found: Sequence[Written], source_flags: Mapping[str, Any]
) -> manifest.Manifest:
    """Describes what was written."""
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
        source=source_flags,
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


def _by_split(found: Sequence[Written]) -> dict[str, list[elwc_writer.Record]]:
    return {
        split: [f.records[split] for f in found if split in f.records]
        for split in inputs.SPLITS
        if any(split in f.records for f in found)
    }


def _label_counts(records: Sequence[elwc_writer.Record]) -> dict[str, int]:
    """Sums counts of labels; there are none if a shard has none, or of too many."""
    total: collections.Counter[str] = collections.Counter()
    for record in records:
        if not record.labels:
            return {}
        total.update(record.labels)
    if len(total) > elwc_writer.MAX_COUNTED_LABELS:
        return {}
    return dict(sorted(total.items(), key=lambda item: float(item[0])))


def _summary(content: manifest.Manifest, found: Sequence[Written]) -> str:
    """Returns what is printed at the end."""
    lines = []
    for split, records in _by_split(found).items():
        entry = content.splits[split]
        text = inputs.describe_counts(
            split,
            queries=entry.queries,
            items=entry.items,
            num_features=content.num_features,
            list_sizes=(min(r.min_list_size for r in records), entry.max_list_size),
            labels={float(label): count for label, count in entry.labels.items()},
            empty=sum(record.empty_queries for record in records),
        )
        lines.append(f"{text}, shards: {len(records)}")
    size = sum(s.bytes for split in content.splits.values() for s in split.shards)
    shards = sum(len(split.shards) for split in content.splits.values())
    lines.append(
        f"{shards:,} shards, {size / 1e6:,.1f} MB. To train on them:\n"
        f"python -m pipelines.train --dataset=elwc --data_dir={FLAGS.output_dir} ..."
    )
    return "\n".join(lines)


def main() -> None:
    """Prepares, after looking whether Beam is there."""
    try:
        prepare_beam.import_beam()
    except ImportError as error:
        sys.exit(f"Error: {error}")
    prepare()


if __name__ == "__main__":
    define_flags()
    command.run(main)
