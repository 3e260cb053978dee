"""LETOR 4.0."""
