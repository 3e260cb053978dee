"""Exports the models of finished runs for TensorFlow Serving.

python -m pipelines.export --model_dir=models/text
python -m pipelines.export --model_dir=models/s1,models/s2 --export_dir=models/both

Writes the next version in `export/` of the run, or in --export_dir; several models
become one that averages their scores, or what --ensemble says. Training exports its
model too, so that this is for another directory, or for runs with --noexport_model.
"""

from __future__ import annotations

import sys

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.training.restoring import ExportConfig, export_runs

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(ExportConfig)


def export() -> None:
    """Exports as the flags say."""
    try:
        export_runs(config_flags.read(ExportConfig, FLAGS))
    except ImportError as error:  # Of what reads encoders.
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    define_flags()
    most_used = ("model_dir", "export_dir", "ensemble", "encoder", "embed_documents")
    command.run(export, most_used=most_used)
