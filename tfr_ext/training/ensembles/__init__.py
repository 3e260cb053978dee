"""Several models, trained on the same data with other seeds, as one."""
