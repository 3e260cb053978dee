"""For users of TensorFlow Ranking (TFR): its pipelines with the losses of this package.

No other part of `tfr_ext` imports this package. If it is imported before TensorFlow, it
makes TFR importable, even on TensorFlow 2.16 and later.

TFR accepts the builders and scorers of `tfr_ext.models` as its own:

>>> import tfr_ext.tfr
>>> import tensorflow_ranking as tfr
>>> builder = tfr_ext.models.model_builder(5, tfr_ext.models.MLPScorer([8]))
>>> isinstance(builder, tfr.keras.model.AbstractModelBuilder)
True
"""

from tfr_ext import _stack

_stack.import_tfr()

from tfr_ext.tfr.pipeline import (  # noqa: E402
    ListsDatasetBuilder,
    LossByKey,  # noqa: E402
    RankingHparams,
    RankingPipeline,
)

__all__ = ["ListsDatasetBuilder", "LossByKey", "RankingHparams", "RankingPipeline"]
