"""Trains, evaluates and exports a ranker.

python -m pipelines.train --flagfile=configs/quickstart.cfg
"""

from __future__ import annotations

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.settings.training_config import TrainingConfig
from tfr_ext.training.trainer import train as train_as

FLAGS = flags.FLAGS

_MOST_USED = (
    *("model_dir", "dataset", "train_path", "loss", "loss_param", "hidden_sizes"),
    *("learning_rate", "batch_size", "num_epochs", "monitor"),
)


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(TrainingConfig, required=["model_dir"])


def train() -> None:
    """Trains as the flags say and leaves all files in --model_dir."""
    train_as(config_flags.read(TrainingConfig, FLAGS))


if __name__ == "__main__":
    define_flags()
    command.run(train, goes_on=True, most_used=_MOST_USED)
