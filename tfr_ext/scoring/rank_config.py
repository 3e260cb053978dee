"""Settings for ranking lists, which need no labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfr_ext.core.decimals import plain_number
from tfr_ext.core.settings import Settings, same_setting, setting
from tfr_ext.data.text_files import check_word
from tfr_ext.settings.data_checks import AUTO, check_columns, check_missing
from tfr_ext.settings.data_config import DataConfig

STANDARD = "-"
"""The name that stands for standard input or output instead of a file."""

_TEXTS = (".csv", ".tsv", ".jsonl")
_PACKERS = ("", ".gz", ".bz2", ".xz")
# The file name extensions of each format.
_INPUTS = {
    "text": (),
    "elwc": (".tfrecord", ".tfrecords"),
    "table": (
        *(".parquet", ".pq"),
        *(f"{name}{packer}" for name in _TEXTS for packer in _PACKERS),
    ),
}
_OUTPUTS = {
    "trec": (".trec", ".run"),
    "jsonl": (".jsonl",),
    "csv": (".csv",),
    "tsv": (".tsv",),
}


def _described(endings: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(
        f"{', '.join(several)} for '{name}'"
        for name, several in endings.items()
        if several
    )


@dataclasses.dataclass(frozen=True)
class RankConfig(Settings):
    """A ranking: by which model, of which lists, and to which file.

    Examples:
        >>> config = RankConfig(export="models/a", input="new.txt", output="a.jsonl")
        >>> config.input_format, config.output_format
        ('text', 'jsonl')
    """

    GROUP = "ranking"

    export: str | None = setting(
        None,
        "A SavedModel that `train` exported, or a directory of its versions, of which "
        "the latest is used; or the directory of a run of trees (`train_gbm`).",
        kind="path",
    )
    input: tuple[str, ...] = setting(
        (),
        "Files of the lists to rank: paths or globs, separated by commas, or - for "
        "standard input. They need no labels, and may be compressed.",
        kind="paths",
    )
    output: str | None = setting(
        None,
        "File to which the ranked lists are written, or - for standard output.",
        kind="path",
    )
    format: str | None = setting(
        None,
        "Format of `output`: 'trec' for a TREC run, 'jsonl' for a line of JSON per "
        "list, 'csv' or 'tsv' for a table with a line per item. If left out, it "
        f"follows from the end of the file's name: {_described(_OUTPUTS)}.",
        choices=tuple(_OUTPUTS),
    )
    topn: int | None = setting(
        None,
        "Number of items to write for each list, the best ones. All if left out.",
        kind="integer",
        low=1,
    )
    tag: str = setting("tfr_ext", "Name of the run, for `format='trec'`.")
    dataset: str | None = setting(
        None,
        "Format of `input`: 'text' for LETOR and SVMrank files, whose lines may lack "
        "the label, 'elwc' for TFRecords of ExampleListWithContext, 'table' for CSV, "
        "JSON lines and Parquet. If left out, it follows from the ends of the files' "
        f"names: {_described(_INPUTS)}, any other for 'text'.",
        group="data",
        choices=tuple(_INPUTS),
    )
    missing: str = setting(
        AUTO,
        "What becomes of missing features, such as NULL in the text: a number takes "
        "their place; 'mean' and 'indicator' leave them to the model, which must have "
        "been trained so. 'auto' does what was done when an export was trained: where "
        "no feature was missing then, one that is missing now is an error.",
        group="data",
    )
    elwc_features: tuple[str, ...] = same_setting(DataConfig, "elwc_features")
    elwc_context_features: tuple[str, ...] = same_setting(
        DataConfig, "elwc_context_features"
    )
    elwc_query_id: str = same_setting(DataConfig, "elwc_query_id")
    elwc_doc_id: str = same_setting(DataConfig, "elwc_doc_id")
    query_column: str = same_setting(DataConfig, "query_column")
    feature_columns: tuple[str, ...] = setting(
        (),
        "Columns of `dataset='table'` that hold the features, in the order of the "
        "training. If left out, they have the names that they had in training, if "
        "that was on a table too.",
        group="data",
        kind="texts",
    )
    doc_id_column: str = same_setting(DataConfig, "doc_id_column")
    overwrite: bool = setting(
        False, "Replace `output` if the file exists.", group="run"
    )
    batch_size: int = setting(
        128, "Number of lists that the model scores at a time.", group="run", low=1
    )

    def __post_init__(self) -> None:
        """Checks the settings."""
        object.__setattr__(self, "missing", plain_number(self.missing))
        super().__post_init__()
        check_missing(self.missing)
        missing = [n for n in ("input", "output") if not getattr(self, n)]
        if missing:
            names = " and ".join(f"`{name}`" for name in missing)
            raise ValueError(
                f"{names} must be given: `input` names the files to rank, and `output` "
                "where the ranked lists go."
            )
        check_columns(self, self.input_format)
        if self.output_format != "trec" and self.tag != type(self).tag:
            raise ValueError("`tag` has no meaning without `format='trec'`.")
        check_word(self.tag, "`tag`, the name of the run,")

    @property
    def input_format(self) -> str:
        """The format of the files to rank: `dataset`, or what their names imply.

        Raises:
            ValueError: If the names imply several formats.
        """
        if self.dataset is not None:
            return self.dataset
        found = {format_of(path) or "text" for path in self.input}
        if len(found) > 1:
            raise ValueError(
                "`input` must name files of one format. The ends of their names imply "
                f"several: {', '.join(sorted(found))}. If all files have the same "
                "format, name it with `dataset`."
            )
        return found.pop()

    @property
    def output_format(self) -> str:
        """The format of the file that is written: `format`, or what its name implies.

        Raises:
            ValueError: If the name implies no format.
        """
        found = self.format or _format_of(_OUTPUTS, self.output or "")
        if found is None:
            raise ValueError(
                f"`output={self.output!r}`: the name implies no format. Give one with "
                f"`format`, or use one of these endings: {_described(_OUTPUTS)}."
            )
        return found


def format_of(path: str) -> str | None:
    """Returns the format to rank that a file's name implies, or None."""
    return _format_of(_INPUTS, path)


def _format_of(endings: Mapping[str, tuple[str, ...]], path: str) -> str | None:
    """Returns the format that a file's name implies, or None."""
    name = path.lower()
    return next((key for key, tails in endings.items() if name.endswith(tails)), None)
