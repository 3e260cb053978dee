"""MSLR-WEB."""
