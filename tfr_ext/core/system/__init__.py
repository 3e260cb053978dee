"""Processes, threads, locks and signals."""
