"""What a process asks of the operating system."""
