"""Commands, run as a user runs them, and what tests ask of them."""

import functools
import pathlib

from tests import fork_server

ROOT = pathlib.Path(__file__).parents[1]

# Flags of a training that takes a second.
SMALL = (
    "--flagfile=configs/quickstart.cfg",
    "--synthetic_num_queries=60",
    "--synthetic_list_size=12",
    "--hidden_sizes=8",
    "--batch_size=8",
    "--num_epochs=3",
    "--gain=linear",
    "--verbose=line",
)


def run_command(module, *flags, check=True):
    """Runs `python -m module` with flags, as a user does."""
    done = fork_server.run(module, [*map(str, flags)])
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


train = functools.partial(run_command, "pipelines.train")


def told(done):
    """What a command that refuses its work says."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def bad(tmp_path, *flags):
    """What a training says that fails and writes no metrics."""
    model_dir = tmp_path / "model"
    done = train(*flags, f"--model_dir={model_dir}", check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    assert not (model_dir / "metrics.json").exists()
    return done.stderr
