"""From lists to batches of padded lists."""
