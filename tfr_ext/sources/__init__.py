"""Where the lists of a training run come from."""
