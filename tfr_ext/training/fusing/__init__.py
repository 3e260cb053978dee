"""Fusion of finished runs: settings, what is read, and the files that it writes."""
