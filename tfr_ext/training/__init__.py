"""From settings and data to a trained, evaluated and exported ranker."""
