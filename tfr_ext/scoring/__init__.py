"""Whatever scores with something trained: evaluation, fusion and ranking."""
