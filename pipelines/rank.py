"""Ranks lists, which need no labels, with an exported model, or by a model server.

python -m pipelines.rank --export=models/text/export --input=new.txt --output=new.trec
python -m pipelines.rank --server=HOST:PORT --model_name=NAME --input=FILE --output=FILE

Writes a TREC run, lines of JSON or a table. It needs memory for a few batches only.
"""

from __future__ import annotations

import contextlib

from absl import flags

from pipelines.client.server_scorer import ServerConfig, ServerScorer
from pipelines.flags import config_flags, flag_files
from pipelines.start import command
from tfr_ext.core.files import is_within
from tfr_ext.scoring.list_ranker import rank as rank_as
from tfr_ext.scoring.rank_config import RankConfig

FLAGS = flags.FLAGS

_MOST_USED = (
    *("export", "server", "model_name", "input", "output", "format", "topn", "tag"),
    *("dataset", "overwrite"),
)


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(RankConfig)
    config_flags.define(ServerConfig)


def rank() -> None:
    """Ranks as the flags say."""
    if (FLAGS.export is None) == (FLAGS.server is None):
        raise ValueError(
            "Exactly one of --export and --server must be given: --export names an "
            "exported model, --server the address of a server that has it."
        )
    config = config_flags.read(RankConfig, FLAGS)
    output = config.output
    if output and any(is_within(output, path) for path in flag_files.were_read):
        raise ValueError(
            f"--output={output} is a flag file of this command, which is an "
            "input. Name another file."
        )
    server = config_flags.read(ServerConfig, FLAGS)
    if server.server is None:
        rank_as(config)
    else:
        with contextlib.closing(ServerScorer(server)) as scorer:
            rank_as(config, scorer)


if __name__ == "__main__":
    define_flags()
    command.run(rank, most_used=_MOST_USED)
