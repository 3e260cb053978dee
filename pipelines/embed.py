"""Turns texts and the candidates of a search engine into a table with embeddings.

python -m pipelines.embed --encoder=DIR --corpus=FILE --output=TABLE.parquet

With --queries, --run and --qrels, the table has the candidates of queries, as all
commands take it. The encoder is a BERT in the files of Hugging Face. If it is killed,
the same command goes on.
"""

from __future__ import annotations

import sys

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.text.embedding import EmbeddingConfig
from tfr_ext.text.embedding import embed as embed_as

FLAGS = flags.FLAGS

_REQUIRED = ("encoder", "corpus", "output")
_MOST_USED = (*_REQUIRED, "queries", "run", "qrels", "depth", "overwrite")


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(EmbeddingConfig, required=[*_REQUIRED])


def embed() -> None:
    """Embeds as the flags say."""
    try:
        embed_as(config_flags.read(EmbeddingConfig, FLAGS))
    except ImportError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    define_flags()
    command.run(embed, goes_on=True, most_used=_MOST_USED)
