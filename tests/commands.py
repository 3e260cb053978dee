"""Commands, run as a user runs them, and what tests ask of them."""

import contextlib
import functools
import pathlib
import random
import socket

from tests import fork_server

ROOT = pathlib.Path(__file__).parents[1]

# Flags of a training that takes a second.
SMALL = (
    "--flagfile=configs/quickstart.cfg",
    "--synthetic_num_queries=60",
    "--synthetic_list_size=12",
    "--model=mlp",
    "--hidden_sizes=8",
    "--batch_size=8",
    "--num_epochs=3",
    "--gain=linear",
    "--verbose=line",
)

# The flags of each command that name files and directories.
_DATA = ("train_path", "valid_path", "test_path", "data_dir", "manual_dir", "flagfile")
PATHS = {
    "train": ("model_dir", "rerank_run", *_DATA),
    "train_gbm": ("model_dir", "rerank_run", *_DATA),
    "evaluate": ("export", "run", "qrels", "scores", "output_dir", *_DATA),
    "compare": ("output_dir", "flagfile"),
    "embed": (*("encoder", "corpus", "queries", "run", "qrels", "output", "flagfile"),),
    "experiment": ("output_dir", "cells_dir", "run_path", "valid_run_path", *_DATA),
    "export": ("model_dir", "export_dir", "encoder", "flagfile"),
    "fuse": ("runs", "qrels", "valid_qrels", "output_dir", "flagfile"),
    "prepare": ("output_dir", *_DATA),
    "rank": ("export", "input", "output", "flagfile"),
}


def run_command(module, *flags, check=True, **options):
    """Runs `python -m module` with flags, as a user does."""
    done = fork_server.run(module, [*map(str, flags)], **options)
    if check:
        assert done.returncode == 0, done.stderr[-3000:]
    return done


train = functools.partial(run_command, "pipelines.train")


def told(done):
    """What a command that refuses its work says."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def rows_of(path):
    """The queries, documents and ranks of a TREC run, and its scores."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return [row[:4] for row in rows], [float(row[4]) for row in rows]


def bad(tmp_path, *flags):
    """What a training says that fails and writes no metrics."""
    model_dir = tmp_path / "model"
    done = train(*flags, f"--model_dir={model_dir}", check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    assert not (model_dir / "metrics.json").exists()
    return done.stderr


def free_ports(count):
    """Ports of this machine that nobody listens on.

    The system gives none of them to a socket that takes any port.
    """
    ports = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 1_000):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError("No port is free.")
