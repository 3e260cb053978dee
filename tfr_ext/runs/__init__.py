"""The directories and files of runs."""
