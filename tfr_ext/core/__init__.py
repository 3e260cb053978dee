"""Shared by all losses and metrics: checks, masks, inputs, blocks and files."""
