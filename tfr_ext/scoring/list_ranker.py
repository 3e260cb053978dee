"""Ranks lists without labels with a model, a few lists at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from tfr_ext.core.files import check_may_write, is_within, whole_file
from tfr_ext.core.messages import say
from tfr_ext.core.settings import given
from tfr_ext.core.system import lock
from tfr_ext.data import file_names, text_files
from tfr_ext.data.elwc import shards
from tfr_ext.data.elwc.reading import iter_elwc
from tfr_ext.data.elwc.schema import ElwcSchema
from tfr_ext.data.letor.reading import iter_letor
from tfr_ext.data.lists import RankingLists
from tfr_ext.data.tables import table_files
from tfr_ext.data.tables.frames import Columns
from tfr_ext.evaluation import trec_names
from tfr_ext.models import categories
from tfr_ext.scoring import loaded_scorers, ranked_formats
from tfr_ext.scoring.loaded_scorers import ListScorer, load_scorer
from tfr_ext.scoring.rank_config import STANDARD, RankConfig, format_of
from tfr_ext.settings.data_checks import AUTO
from tfr_ext.settings.data_config import DataConfig
from tfr_ext.sources import table_source


@dataclasses.dataclass(frozen=True)
class RankingResult:
    """Result of a ranking.

    Attributes:
        num_queries: number of lists that were ranked.
        num_items: number of their items.
        num_written: number of items that were written: fewer with `topn`.
        paths: the file that was written, as 'output'; empty for standard output.
        unseen: by category, the share of the values that are not in the vocabulary of
            an export; NaN if there are no values.
    """

    num_queries: int
    num_items: int
    num_written: int
    paths: Mapping[str, str]
    unseen: Mapping[str, float] = dataclasses.field(default_factory=dict)


class _SomeUnnamedError(ValueError):
    """Lists without document ids follow lists that have them."""


def rank(config: RankConfig, scorer: ListScorer | None = None) -> RankingResult:
    r"""Ranks lists with a model, and writes them, best item first.

    Items with equal scores rank by their position in the list, as in `evaluate`. The
    file appears when it is complete, or not at all. Lists are read, scored and written
    a few at a time, in memory for a few batches and for the names of all queries.

    Args:
        config: the settings.
        scorer: scores the lists instead of an export: any object with `num_features`,
            `feature_names` (or None) and `scores(lists, batch_size)`, as
            `tfr_ext.serving.exporter.ExportedScorer` has them.

    Returns:
        How much was ranked, and where the file is.

    Raises:
        ValueError: If settings or data are wrong, there is no model, or two, a list
            has a feature that is NaN, or the file exists already.
        OSError: If a file cannot be read or written.

    Examples:
        >>> import os, tempfile
        >>> from tfr_ext.training import (
        ...     DataConfig, LossConfig, ModelConfig, RankConfig, TrainingConfig,
        ...     rank, train)
        >>> folder = tempfile.TemporaryDirectory()
        >>> model, new, ranked = (
        ...     os.path.join(folder.name, x) for x in ("model", "new.txt", "new.csv"))
        >>> trained = train(TrainingConfig(
        ...     data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
        ...     model=ModelConfig(hidden_sizes=(4,)), loss=LossConfig("list_net_loss"),
        ...     num_epochs=1, model_dir=model, verbose="silent"))  # doctest: +ELLIPSIS
        train: 12 queries, ...
        >>> with open(new, "w") as file:
        ...     _ = file.write("qid:7 1:0.5 2:1\nqid:7 25:-3\nqid:8 1:1\n")
        >>> result = rank(RankConfig(
        ...     export=trained.paths["export"], input=new, output=ranked)
        ... )  # doctest: +ELLIPSIS
        Ranked 2 queries, 3 items. Written: ...new.csv
        >>> with open(result.paths["output"]) as file:
        ...     print(file.readline(), end="")
        query_id,doc_id,position,rank,score
        >>> folder.cleanup()
    """
    if (config.export is None) == (scorer is None):
        raise ValueError(
            "A ranking needs one model: give either `export` or a scorer. Received: "
            f"{'neither' if scorer is None else 'both'}."
        )
    files = [
        file
        for path in config.input
        for file in (
            [text_files.STANDARD_INPUT]
            if path == STANDARD
            else file_names.find_files(path)
        )
    ]
    implied = {format_of(file) for file in files} - {None, config.input_format}
    if config.dataset is None and implied:
        raise ValueError(
            f"{given('input', config.input)} does not end as its files do, such as "
            f"{files[0]}: name their format with `dataset`."
        )
    _check_output(config, files)
    if scorer is None:
        assert config.export is not None
        scorer = load_scorer(config.export)
    with _opened(config, files) as file:
        try:
            result = _rank(config, scorer, files, file)
        except _SomeUnnamedError as error:
            # Then no list has names, as if all lists were read before any is written.
            if config.output == STANDARD or any(map(text_files.is_pipe, files)):
                raise ValueError(
                    f"{error} Give all items an id, or read files and write to a file: "
                    "then no id is used."
                ) from None
            file.seek(0)
            file.truncate()
            result = _rank(config, scorer, files, file, named=False)
    if config.output != STANDARD:
        fewer = f" ({result.num_written:,} written)" * (config.topn is not None)
        say(
            f"Ranked {result.num_queries:,} queries, {result.num_items:,} items{fewer}."
            f" Written: {config.output}"
        )
        for name, share in result.unseen.items():
            no_value = f"{name}: there is no value."
            some = f"{name}: {share:.0%} of the values are not in the vocabulary."
            say(no_value if math.isnan(share) else some)
    return result


def _check_output(config: RankConfig, files: Sequence[str]) -> None:
    """Checks that the file to write replaces nothing that must be kept."""
    path = config.output
    if path is None or path == STANDARD:
        return
    check_may_write(path)
    where = given("output", path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{where} must be a file, but is something else.")
    if any(is_within(path, file) for file in files):
        raise ValueError(
            f"{where} is an input file, and would be replaced. Name another file."
        )
    if config.export is not None and is_within(path, config.export):
        raise ValueError(
            f"{where} is in {given('export', config.export)}, which is an input. Name "
            "a file elsewhere."
        )
    if os.path.exists(path) and not config.overwrite:
        raise ValueError(
            f"{where} exists already. Name another file, or replace it with "
            "`overwrite=True`."
        )


@contextlib.contextmanager
def _opened(config: RankConfig, files: Sequence[str]) -> Iterator[BinaryIO]:
    """Opens the file to which the ranked lists are written, and locks it."""
    assert config.output is not None
    if config.output == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with lock.alone_with(config.output, "ranking"):
        _check_output(config, files)  # Another ranking may just have written it.
        with whole_file(config.output) as file:
            yield file


def _rank(
    config: RankConfig,
    scorer: ListScorer,
    files: Sequence[str],
    file: BinaryIO,
    named: bool = True,
) -> RankingResult:
    """Reads, scores and writes all lists."""
    queries = items = written = 0
    have_names: bool | None = None if named else False
    names = trec_names.QueryNames()  # Those of all lists.
    known = getattr(scorer, "vocabularies", {})
    unseen: dict[str, np.ndarray] = {}
    file.write(ranked_formats.head(config).encode())
    for lists in read(config, files, scorer):
        if have_names is None:
            have_names = lists.doc_ids is not None
        if not have_names:
            lists = dataclasses.replace(lists, doc_ids=None)
        elif lists.doc_ids is None:
            raise _SomeUnnamedError(
                "Some items have a document id and others have none. The first "
                f"without one is between the queries {lists.query_ids[0]!r} and "
                f"{lists.query_ids[-1]!r}."
            )
        if config.output_format == "trec":
            names.check(lists)
        loaded_scorers.check_categories(lists, scorer)
        loaded_scorers.check_features(lists, takes_missing(scorer))
        scores = scorer.scores(lists, config.batch_size)
        loaded_scorers.check_scores(lists, scores)
        lines = ranked_formats.WRITERS[config.output_format](config, lists, scores)
        file.write("".join(lines).encode())
        for name, counts in categories.unseen(lists, known).items():
            unseen[name] = unseen.get(name, 0) + counts
        queries += lists.num_lists
        items += lists.num_items
        lengths = lists.lengths
        written += int(np.minimum(lengths, config.topn or lengths).sum())
    paths = {} if config.output in (None, STANDARD) else {"output": config.output}
    shares = {
        name: lacked / every if every else math.nan
        for name, (lacked, every) in unseen.items()
    }
    return RankingResult(queries, items, written, paths, shares)


# Size of the features, in pandas, that are read from a table at a time.
_TABLE_BYTES = 8 << 20

_Pieces = Iterator[RankingLists]


def read(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    """Reads lists piece by piece; their labels have no meaning."""
    return _READERS[config.input_format](config, files, scorer)


def takes_missing(scorer: ListScorer) -> bool:
    """Returns whether a model takes NaN; a server says so itself, by an error."""
    return getattr(scorer, "takes_missing", True)


def _missing(config: RankConfig, scorer: ListScorer) -> DataConfig:
    """Returns what becomes of missing features; by default, what did in training."""
    known = getattr(scorer, "missing", AUTO)
    return DataConfig(missing=known if config.missing == AUTO else config.missing)


def _text(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    value = _missing(config, scorer).missing_value
    return iter_letor(files, scorer.num_features, value, labelled=False)


def _elwc(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    schema = ElwcSchema(
        config.elwc_features,
        config.elwc_context_features,
        None,
        config.elwc_query_id,
        config.elwc_doc_id,
        label_distribution="",
        missing_value=_missing(config, scorer).absent_value,
        columns=tuple(scorer.feature_names or ()),
        takes_nan=_missing(config, scorer).keeps_missing and takes_missing(scorer),
        spec=getattr(scorer, "spec", None),
    )
    packed = None if schema.spec is None else shards.packed_spec(files)
    if packed is not None:  # The ids of prepared shards, by no names.
        schema = schema.of_shards(packed)
    return iter_elwc(files, scorer.num_features, schema, config.batch_size)


def _table(config: RankConfig, files: Sequence[str], scorer: ListScorer) -> _Pieces:
    spec = getattr(scorer, "spec", None)
    known = scorer.feature_names if spec is None else spec.number_names
    features = config.feature_columns or known
    if not features and spec is None:
        who = (
            "The model was not trained on a table, and" if config.export else "A server"
        )
        raise ValueError(
            f"{who} does not know the names of its {scorer.num_features} "
            "features. Name their columns with `feature_columns`, in the order of the "
            "training."
        )
    if features and spec is None and len(features) != scorer.num_features:
        raise ValueError(
            f"{given('feature_columns', tuple(features))} names {len(features)} "
            f"columns, but the model takes {scorer.num_features} features."
        )
    columns = Columns(
        None,
        config.query_column,
        features or None,
        doc_id=config.doc_id_column or None,
        missing=_missing(config, scorer).keeps_missing and takes_missing(scorer),
    )
    if spec is not None:
        columns = columns.of_model(spec)
    width = len(columns.features or ())
    if spec is not None:
        embeddings = spec.num_features - spec.num_numbers
        width += embeddings + spec.num_ids + spec.num_context_ids
    rows = max(1, _TABLE_BYTES // (8 * width))
    return table_files.read_files(
        files, table_source.with_names(columns, files[0]), rows
    )


_READERS: dict[str, Callable[[RankConfig, Sequence[str], ListScorer], _Pieces]] = {
    "text": _text,
    "elwc": _elwc,
    "table": _table,
}
