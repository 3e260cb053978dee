"""A pool: what it gets from its processes, and that none of them is left."""

import os
import signal
import sys

import pytest

from tfr_ext.core.system import child_process

pytestmark = pytest.mark.any_keras


def end_as_told(pipe):
    """Answers with its process id and what it is sent, until that is a way to end."""
    for task in child_process.tasks(pipe):
        if task == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "returned":
            return
        if task == "ended":
            sys.exit(3)
        pipe.send((os.getpid(), task))


@pytest.mark.parametrize("task, code", [("killed", -9), ("returned", 0), ("ended", 3)])
def test_how_a_process_ended_is_named(task, code):
    with child_process.Pool() as pool:
        pipe = pool.start(end_as_told)
        pool.send(pipe, task)
        with pytest.raises(child_process.Ended, match=f"ended with exit code {code}"):
            pool.receive(pipe)
        pool.send(pipe, "more")  # Nobody is there, which `receive` says.
        with pytest.raises(child_process.Ended, match=f"ended with exit code {code}"):
            pool.receive(pipe)
        pool.join(pipe)
        assert not len(pool)


def test_no_process_is_left():
    with child_process.Pool() as pool:
        pipes = [pool.start(end_as_told) for _ in range(3)]
        for pipe in pipes[:2]:
            pool.send(pipe, "work")
        assert pool.ready(pipes[:1]) == pipes[:1]
        numbers = [pool.receive(pipe)[0] for pipe in pipes[:2]]
        pool.end(pipes[0])
        pool.join(pipes[2])
        assert not os.path.exists(f"/proc/{numbers[0]}") and len(pool) == 1
    assert not os.path.exists(f"/proc/{numbers[1]}")
