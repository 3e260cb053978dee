"""The settings of runs: frozen dataclasses, from which the flags are made."""
