"""The export of a model for TF Serving: what it consists of, and how it is checked."""
