"""Yahoo! Learning to Rank Challenge, by the builder of TFDS."""
