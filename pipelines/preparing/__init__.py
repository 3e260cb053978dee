"""What only `pipelines.prepare` needs."""
