"""Istella, by the builder of TFDS."""
