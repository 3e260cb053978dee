"""Converts any data to shards of ELWC TFRecords, by processes here or by Apache Beam.

python -m pipelines.prepare --dataset=text --train_path=FILES --output_dir=DIR

Killed and started again, it goes on. Training reads the shards with --dataset=elwc
--data_dir=DIR.
"""

from __future__ import annotations

import collections
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from absl import flags

import tfr_ext
from pipelines import command
from pipelines.flags import flag_types, path_flags, shared_flags
from pipelines.preparing import (
    beam_runner,
    report,
    shard_directory,
    source_pieces,
    work_units,
    worker_processes,
)
from pipelines.preparing.work_units import Output, Unit, Written
from tfr_ext.data.letor.byte_ranges import Survey
from tfr_ext.training import lock
from tfr_ext.training.sources import data_splits

FLAGS = flags.FLAGS

# What tells which lists there are. Training does the rest, with the other data flags.
_SOURCE_FLAGS = re.compile(
    "dataset|.*_path|.*_fraction|data_dir|manual_dir|num_features|missing_value|(data_)?seed"
    "|synthetic_.*|elwc_.*"
)
_Found = TypeVar("_Found", Survey, Written)


def define_flags() -> None:
    """Defines the flags of this command."""
    shared_flags.define_data_flags()
    flags.adopt_module_key_flags(shared_flags)  # so that --helpshort lists them
    path_flags.define(
        "output_dir",
        "Directory that gets the shards and their manifest.json, on any file system "
        "that TensorFlow knows.",
        required=True,
    )
    flag_types.define_float(
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
        "Repeatable. With any, Beam does the work, else processes of this machine.",
    )
    flag_types.define_integer(
        "num_workers",
        None,
        "Processes of this machine that work at a time; one for each core if left out.",
        lower_bound=1,
    )


def prepare() -> None:
    """Prepares as the flags say."""
    if FLAGS.beam_args and FLAGS.num_workers:
        raise ValueError(
            "--num_workers is for work without Beam. Give Beam's runner an option of "
            "its own, such as --beam_args=--direct_num_workers=8."
        )
    directory = FLAGS.output_dir
    if "://" in directory:
        print(
            f"{directory} cannot be locked, as it is not local: make sure that no "
            "other preparation runs there."
        )
        _prepare(directory)
        return
    with lock.alone(directory, "preparation"):
        _prepare(directory)


def _prepare(directory: str) -> None:
    source_flags = _source_flags()
    division = source_pieces.divide(
        FLAGS, source_flags, max(1, int(FLAGS.shard_megabytes * 1e6))
    )
    shard_directory.check_source(directory, division.files)
    plan = _plan(source_flags, division.files)
    place = shard_directory.begin(directory, plan, FLAGS.overwrite)
    if place is None:
        return
    try:
        _write(directory, place, source_flags, division, plan)
    finally:
        shard_directory.tidy(directory, place)


def _write(
    directory: str,
    place: str,
    source_flags: Mapping[str, Any],
    division: source_pieces.Division,
    plan: Mapping[str, Any],
) -> None:
    """Writes all shards in `place`, and finishes them in `directory`."""
    if FLAGS.beam_args:
        unknown = beam_runner.unknown_options(FLAGS.beam_args)
        if unknown:
            print(f"Passed on, but not known to Beam itself: {' '.join(unknown)}")
    units = _units(place, division)
    found = _run(place, units, work_units.written)
    _check_queries(units, found)
    for split in {output.split for unit in units for output in unit.outputs}:
        if not any(split in result.records for result in found):
            raise ValueError(f"The {split} data has no judged items.")
    if _plan(source_flags, division.files) != plan:
        raise ValueError(
            "Files of the source changed while they were read. Start anew, with "
            "--overwrite."
        )
    content = report.describe(found, source_flags)
    shard_directory.finish(directory, content, place)
    print(report.summary(content, found, directory))


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


def _units(directory: str, division: source_pieces.Division) -> list[Unit]:
    """Plans what each worker reads and writes."""
    pieces = division.pieces
    fractions = data_splits.held_out(FLAGS, pieces)
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
        for split in data_splits.SPLITS
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
        if not splits:
            continue  # It has no lists at all.
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


def _survey(directory: str, pieces: Sequence[source_pieces.Piece]) -> list[Survey]:
    """Reads the training data once, before it is written."""
    units = [
        Unit(f"survey-{index:05}", directory, piece, FLAGS.num_features)
        for index, piece in enumerate(pieces)
    ]
    surveys = _run(directory, units, work_units.surveyed)
    print(
        f"{sum(s.queries for s in surveys):,} queries, "
        f"{max(s.num_features for s in surveys):,} features"
    )
    return surveys


def _divide_lists(
    queries: Sequence[int], fractions: Mapping[str, float]
) -> list[dict[str, np.ndarray]]:
    """Returns for each piece which of its lists go to which split, if any do."""
    parts = data_splits.hold_out(sum(queries), fractions, shared_flags.data_seed(FLAGS))
    bounds = np.cumsum([0, *queries])
    divided = []
    for start, end in zip(bounds, bounds[1:]):
        inside = {
            split: chosen[slice(*np.searchsorted(chosen, [start, end]))] - start
            for split, chosen in parts.items()
        }
        divided.append({split: which for split, which in inside.items() if len(which)})
    return divided


def _run(
    directory: str, units: Sequence[Unit], found: Callable[[Unit], _Found | None]
) -> list[_Found]:
    """Does the work of those units that are not finished, and returns all results."""
    left = [unit for unit in units if found(unit) is None]
    if len(left) < len(units):
        print(
            f"{len(units) - len(left):,} of {len(units):,} pieces were finished before."
        )
    if left and FLAGS.beam_args:
        beam_runner.run(left, work_units.work, FLAGS.beam_args)
    elif left:
        workers = FLAGS.num_workers or worker_processes.num_cores()
        worker_processes.run(left, work_units.work, workers)
    work_units.raise_error(directory)
    results = [found(unit) for unit in units]
    missing = [unit.name for unit, result in zip(units, results) if result is None]
    if missing:
        raise ValueError(
            f"{len(missing):,} of {len(units):,} pieces are not in {directory} "
            f"though all work has ended, such as {missing[0]}: do workers of Beam "
            "write there? Started again, this command goes on."
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


def main() -> None:
    """Prepares, after looking whether Beam is there if it is wanted."""
    if FLAGS.beam_args:
        try:
            beam_runner.import_beam()
        except ImportError as error:
            sys.exit(f"Error: {error}")
    prepare()


if __name__ == "__main__":
    define_flags()
    command.run(main, goes_on=True)
