"""OHSUMED of LETOR 3.0."""
