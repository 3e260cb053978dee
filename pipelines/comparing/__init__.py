"""How a comparison of runs is shown."""
