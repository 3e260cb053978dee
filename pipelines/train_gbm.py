"""Trains and evaluates gradient-boosted trees (LightGBM, CatBoost).

python -m pipelines.train_gbm --flagfile=configs/mq2008.cfg --objective=lambdarank

The files are those of `pipelines.train`, with the trees in model.txt (LightGBM) or
model.cbm (CatBoost), so that runs of both can be compared.
"""

from __future__ import annotations

from absl import flags

from pipelines.flags import config_flags
from pipelines.start import command
from tfr_ext.gbm.gbm_config import GbmConfig
from tfr_ext.gbm.gbm_trainer import train

FLAGS = flags.FLAGS

_MOST_USED = (
    *("model_dir", "dataset", "train_path", "objective", "loss_param", "num_trees"),
    *("learning_rate", "num_leaves", "early_stopping_patience", "monitor"),
)


def define_flags() -> None:
    """Defines the flags of this command."""
    config_flags.define(GbmConfig, required=["model_dir"])


def train_gbm() -> None:
    """Trains as the flags say and leaves all files in --model_dir."""
    train(config_flags.read(GbmConfig, FLAGS))


if __name__ == "__main__":
    define_flags()
    command.run(train_gbm, most_used=_MOST_USED)
