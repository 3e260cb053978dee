"""LETOR / SVMrank text."""
