"""Scoring with trained models: evaluation, fusion and ranking."""
