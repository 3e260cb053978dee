"""Exports models for TensorFlow Serving, and checks the exports."""
