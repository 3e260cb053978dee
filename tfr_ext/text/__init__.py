"""Pretrained text encoders: BERT and its tokenizer, without foreign operations."""

from tfr_ext.text.bert import Bert
from tfr_ext.text.embedding import EmbeddingConfig, embed
from tfr_ext.text.encoder import Encoder
from tfr_ext.text.word_piece import WordPiece

__all__ = ["Bert", "EmbeddingConfig", "Encoder", "WordPiece", "embed"]
