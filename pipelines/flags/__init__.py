"""The flags of the commands."""
