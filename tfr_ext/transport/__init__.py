"""Entropic optimal transport: of labels to scores, and of items to ranks."""
