"""Runs `pipelines.evaluate`, whose work ends with a pipe that another process broke."""

from pipelines import evaluate
from pipelines.start import command


def work():
    """Fails as a write to a process that is gone."""
    raise BrokenPipeError(32, "Broken pipe")


if __name__ == "__main__":
    evaluate.define_flags()
    command.run(work)
