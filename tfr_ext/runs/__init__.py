"""The directories that commands write: whose files they hold, and of which run."""
