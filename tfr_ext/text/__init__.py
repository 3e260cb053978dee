"""Pretrained text encoders: BERT and its tokenizer, without foreign operations."""

import importlib as _importlib
import typing as _typing

from tfr_ext.text.bert import Bert
from tfr_ext.text.embedding import EmbeddingConfig, embed
from tfr_ext.text.encoder import Encoder
from tfr_ext.text.word_piece import WordPiece

__all__ = ["Bert", "EmbeddingConfig", "Encoder", "WordPiece", "embed"]


def __getattr__(name: str) -> _typing.Any:
    """Imports `CrossEncoder` on first access, as it stands on training."""
    if name == "CrossEncoder":
        module = _importlib.import_module("tfr_ext.estimators.cross_encoder")
        return module.CrossEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
