"""Trained gradient-boosted trees, and the libraries that they need."""
