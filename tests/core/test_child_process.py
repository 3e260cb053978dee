"""A pool: what it gets from its processes, and that none of them is left."""

import os
import pathlib
import signal
import subprocess
import sys
import time
from multiprocessing import connection

import pytest

from tests.commands import ROOT
from tfr_ext.core.system import child_process, termination

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


def test_nothing_is_sent_to_the_number_of_a_process_that_has_ended(monkeypatch):
    """Another process may have it by then."""
    with child_process.Pool() as pool:
        pipe = pool.start(end_as_told)
        pool.send(pipe, "returned")
        connection.wait([pool._processes[pipe].sentinel])
        monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("A signal was sent."))


def save_slowly(pipe, path):
    with termination.polled():
        pipe.send("started")
        while not termination.is_requested():
            time.sleep(0.05)
        time.sleep(1)
        pathlib.Path(path).touch()


SAVING = """
import os, sys, time
from tests.core.test_child_process import save_slowly
from tfr_ext.core.system import child_process, termination

termination.handle_sigterm()
with termination.polled(), child_process.Pool() as pool:
    print(pool.receive(pool.start(save_slowly, sys.argv[1])), flush=True)
    while not termination.is_requested():
        time.sleep(0.05)
print(os.listdir(os.path.dirname(sys.argv[1])), flush=True)
"""


def test_sigterm_to_all_processes_is_not_the_end_of_what_they_save(tmp_path):
    """As `timeout` sends it, and systems that start commands."""
    with subprocess.Popen(
        [sys.executable, "-c", SAVING, str(tmp_path / "x")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "started\n"
        os.killpg(process.pid, signal.SIGTERM)
        assert process.stdout.readline() == "['x']\n"


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
