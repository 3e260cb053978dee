"""The tables and figures of docs/reproduction, which its pages include."""
