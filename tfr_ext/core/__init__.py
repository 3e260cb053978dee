"""What every loss and metric stands on: checks, masks, inputs, blocks and files."""
