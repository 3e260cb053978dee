"""Converts any data to shards of ELWC TFRecords, in processes here or with Apache Beam.

python -m pipelines.prepare --dataset=text --train_path=FILES --output_dir=DIR

If it is killed, the same command goes on. Training reads the shards with --dataset=elwc
--data_dir=DIR.
"""

from __future__ import annotations

import collections
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from absl import flags

from pipelines.flags import config_flags
from pipelines.preparing import runners, shard_directory, work_units
from pipelines.preparing.work_units import Output, Unit, Written
from pipelines.start import command
from tfr_ext.core import messages
from tfr_ext.core.settings import Settings, places, setting
from tfr_ext.core.system import lock
from tfr_ext.data.letor.byte_ranges import Survey
from tfr_ext.runs import run_file
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import data_splits, named_sources
from tfr_ext.sources.source import SPLITS, Division, Piece
from tfr_ext.version import __version__

FLAGS = flags.FLAGS

# The settings that say which lists there are, besides those of the source's own. The
# other data flags are left to training.
_SOURCE = re.compile(
    "dataset|.*_path|.*_fraction|data_dir|manual_dir|num_features|missing|text_words"
    "|embedding_inputs|(data_)?seed"
)
_MOST_USED = (
    *("output_dir", "dataset", "train_path", "valid_path", "test_path"),
    *("shard_megabytes", "num_workers", "beam_args", "overwrite", "seed"),
)
_Found = TypeVar("_Found", Survey, Written)


@dataclasses.dataclass(frozen=True)
class PreparationConfig(Settings):
    """Where shards go, how large they are, and who writes them."""

    GROUP = "preparation"

    output_dir: str | None = setting(
        None,
        "Directory to which the shards and their manifest.json are written, on any "
        "file system that TensorFlow knows.",
        kind="path",
    )
    shard_megabytes: float = setting(
        64.0,
        "Approximate size of the text or of the features that one shard is made from. "
        "`dataset='elwc'` has one shard for each of its files.",
        low=1e-6,
    )
    overwrite: bool = setting(
        False, "Start again in an `output_dir` that holds other shards."
    )
    beam_args: tuple[str, ...] = setting(
        (),
        "An option of Apache Beam, such as --beam_args=--runner=FlinkRunner. "
        "Repeatable. If any is given, Beam does the work; otherwise, processes of "
        "this machine do.",
        kind="repeated",
    )
    num_workers: int | None = setting(
        None,
        "Number of processes of this machine that work at the same time. One for each "
        "core if left out.",
        kind="integer",
        low=1,
    )

    def __post_init__(self) -> None:
        """Checks that the settings are right and fit each other."""
        super().__post_init__()
        if self.beam_args and self.num_workers:
            raise ValueError(
                "`num_workers` cannot be given with `beam_args`. Give Beam's runner "
                "an option of its own instead, such as "
                "--beam_args=--direct_num_workers=8."
            )


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(DataConfig)
    config_flags.define(PreparationConfig, required=["output_dir"])


def prepare() -> None:
    """Prepares as the flags say."""
    config = config_flags.read(PreparationConfig, FLAGS)
    source = config_flags.read(DataConfig, FLAGS)
    directory = config.output_dir or ""
    if "://" in directory:
        messages.say(
            f"{directory} is not local, so it cannot be locked: make sure that no "
            "other preparation writes to it."
        )
        _prepare(config, source)
        return
    with lock.alone(directory, "preparation"):
        _prepare(config, source)


def _prepare(config: PreparationConfig, source: DataConfig) -> None:
    directory = config.output_dir or ""
    facts = _source_facts(source)
    _print_ignored(source)
    piece_bytes = max(1, int(config.shard_megabytes * 1e6))
    division = named_sources.source(source).divide(piece_bytes)
    shard_directory.check_source(directory, division.files)
    plan = _plan(config, facts, division.files)
    place = shard_directory.begin(directory, plan, config.overwrite)
    if place is None:
        return
    try:
        _write(config, source, place, division, plan)
    except ValueError as error:
        work_units.keep_error(place, error)  # The user may fix the source, and retry.
        raise
    finally:
        shard_directory.tidy(directory, place)


def _write(
    config: PreparationConfig,
    source: DataConfig,
    place: str,
    division: Division,
    plan: Mapping[str, Any],
) -> None:
    """Writes all shards in `place`, and finishes them where they belong."""
    directory = config.output_dir or ""
    if config.beam_args:
        unknown = runners.unknown_options(config.beam_args)
        if unknown:
            messages.say(
                f"Options passed on that Beam itself does not know: {' '.join(unknown)}"
            )
    units = _units(config, source, place, division)
    found = _run(config, place, units, work_units.written)
    _check_queries(units, found)
    for split in {output.split for unit in units for output in unit.outputs}:
        if not any(split in result.records for result in found):
            raise ValueError(f"The {split} data has no judged items.")
    facts = _source_facts(source)
    if _plan(config, facts, division.files) != plan:
        raise ValueError(
            "Files of the source changed while they were being read. Start again with "
            "--overwrite."
        )
    content = shard_directory.describe(found, facts)
    shard_directory.finish(directory, content, place)
    messages.say(shard_directory.summary(content, found, directory))


def _source_facts(source: DataConfig) -> dict[str, Any]:
    """Returns the settings that say which lists there are, for JSON."""
    kept, own = {}, named_sources.kind(source.dataset).settings
    for place in places(DataConfig):
        if place.key in own or _SOURCE.fullmatch(place.key):
            value = place.value(source)
            kept[place.key] = list(value) if isinstance(value, tuple) else value
    return kept


def _print_ignored(source: DataConfig) -> None:
    """Prints the settings that have no effect on shards."""
    of_sources = {n for kind in named_sources.SOURCES.values() for n in kind.settings}
    for place in places(DataConfig):
        if place.key in of_sources or _SOURCE.fullmatch(place.key):
            continue
        if place.value(source) != place.default:
            (line,) = run_file.lines_of(place, place.value(source))
            messages.say(f"{line} does not change the shards; training applies it.")


def _plan(
    config: PreparationConfig, facts: Mapping[str, Any], files: Sequence[str]
) -> dict[str, Any]:
    """Returns everything that determines the shards, for JSON."""
    stats = {path: tf.io.gfile.stat(path) for path in files}
    return {
        "tfr_ext": __version__,
        "flags": {**facts, "shard_megabytes": config.shard_megabytes},
        "files": {path: [s.length, s.mtime_nsec] for path, s in stats.items()},
    }


def _units(
    config: PreparationConfig, source: DataConfig, directory: str, division: Division
) -> list[Unit]:
    """Returns the work units: what each worker reads and writes."""
    pieces = division.pieces
    fractions = data_splits.held_out(source, pieces)
    num_features, has_doc_ids = source.num_features, True
    chosen: list[dict[str, np.ndarray]] = []
    needs_width = division.needs_width and num_features is None
    if fractions or needs_width:
        reasons = [f"hold out queries for {split!r}" for split in fractions]
        if needs_width:
            reasons.append(
                "find the number of features (--num_features makes this unnecessary)"
            )
        messages.say(f"Reading the training data once first, to {', '.join(reasons)}.")
        surveys = _survey(config, directory, pieces["train"], num_features)
        num_features = max(survey.num_features for survey in surveys)
        if fractions:
            # Otherwise training would find them in one split and miss them in another.
            has_doc_ids = all(survey.has_doc_ids for survey in surveys)
            chosen = _divide_lists(
                [s.queries for s in surveys], fractions, source.random_seed
            )
    parts = [
        (split, index, piece)
        for split in SPLITS
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


def _survey(
    config: PreparationConfig,
    directory: str,
    pieces: Sequence[Piece],
    num_features: int | None,
) -> list[Survey]:
    """Reads the training data once, before it is written."""
    units = [
        Unit(f"survey-{index:05}", directory, piece, num_features)
        for index, piece in enumerate(pieces)
    ]
    surveys = _run(config, directory, units, work_units.surveyed)
    messages.say(
        f"{sum(s.queries for s in surveys):,} queries, "
        f"{max(s.num_features for s in surveys):,} features"
    )
    return surveys


def _divide_lists(
    queries: Sequence[int], fractions: Mapping[str, float], seed: int
) -> list[dict[str, np.ndarray]]:
    """Returns which lists of each piece go to which split, if any do."""
    parts = data_splits.hold_out(sum(queries), fractions, seed)
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
    config: PreparationConfig,
    directory: str,
    units: Sequence[Unit],
    found: Callable[[Unit], _Found | None],
) -> list[_Found]:
    """Does the work of the units that are not finished, and returns all results."""
    left = [unit for unit in units if found(unit) is None]
    if len(left) < len(units):
        messages.say(
            f"{len(units) - len(left):,} of {len(units):,} pieces are finished already."
        )
    if left and config.beam_args:
        runners.run_on_beam(left, work_units.work, config.beam_args)
    elif left:
        workers = config.num_workers or runners.num_cores()
        runners.run_here(left, work_units.work, workers)
    work_units.raise_error(directory)
    results = [found(unit) for unit in units]
    missing = [unit.name for unit, result in zip(units, results) if result is None]
    if missing:
        raise ValueError(
            f"{len(missing):,} of {len(units):,} pieces are missing from {directory} "
            f"although all work has ended, such as {missing[0]}. Do Beam's workers "
            "write to this directory? The same command goes on."
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
                    f"began earlier, at {other.piece.locate(query)}; expected the "
                    "lines of a query next to each other in one file."
                )


def main() -> None:
    """Prepares the shards, after a check that Beam is installed if it is wanted."""
    if FLAGS.beam_args:
        try:
            runners.import_beam()
        except ImportError as error:
            sys.exit(f"Error: {error}")
    prepare()


if __name__ == "__main__":
    define_flags()
    command.run(main, goes_on=True, most_used=_MOST_USED)
