"""Start-up of a command, before it imports TensorFlow, which takes seconds."""
