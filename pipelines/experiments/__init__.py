"""What only `pipelines.experiment` needs."""
