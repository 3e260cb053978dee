"""Fuses runs by their scores or ranks, and evaluates the result.

python -m pipelines.fuse RUN RUN ... --output_dir=DIR
python -m pipelines.fuse --weights=valid --monitor=map --output_dir=DIR RUN RUN

Each RUN is a directory that `pipelines.train`, `pipelines.evaluate` or this command
wrote, or a TREC run file. With --weights=valid, the weights are those that are best on
the validation queries (`run.valid.trec`). Writes the files that `pipelines.evaluate`
writes, so that `pipelines.compare` takes the directory.
"""

from __future__ import annotations

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.scoring.run_fuser import FusionConfig
from tfr_ext.scoring.run_fuser import fuse as fuse_as

FLAGS = flags.FLAGS

_MOST_USED = ("runs", "fusion", "weights", "monitor", "rrf_k", "metrics")


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(FusionConfig)


def fuse(arguments: list[str]) -> None:
    """Fuses as the flags say.

    Args:
        arguments: the runs, unless --runs names them.
    """
    if arguments and FLAGS.runs:
        raise ValueError(
            f"Name the runs either by --runs={','.join(FLAGS.runs)} or without a flag. "
            f"Received: both, as {' '.join(arguments)}."
        )
    if arguments:
        FLAGS["runs"].value = arguments
    fuse_as(config_flags.read(FusionConfig, FLAGS))


if __name__ == "__main__":
    define_flags()
    command.run(fuse, takes_arguments=True, most_used=_MOST_USED)
