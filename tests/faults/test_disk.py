"""A disk that is full, and files that cannot be written or read: at each, by turns.

A command ends with status 1 and a line that names a file. When the fault is gone, the
same command ends as it would have, and goes on from what it had finished.
"""

import errno
import os

import pytest

from tests.faults.disturbed import COMMANDS, assert_finished, kinds, own_kinds

WRITES = ("write", "mkdir", "rename")
TOLD = {
    "full": "No space left on device",
    errno.EACCES: "Permission denied",
    errno.EIO: "Input/output error",
    errno.ENOENT: "No such file or directory",
}
# The fastest command comes first: it is the one of `make test`.
WRITING = ("compare", "rank", "evaluate", "export", "prepare", "train_gbm", "train")
READING = ("compare", "rank", "evaluate")


def told(disk, command, done, fault):
    """Checks that a command has told a fault in a line that names a file."""
    assert done.returncode == 1, (done.returncode, done.stderr)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Error: ") and str(disk.root) in lines[0]
    return lines[0]


def goes_on(disk, command, expected):
    """Checks that a command then ends as without faults, and repeats nothing."""
    wanted = disk.going_on()
    done = disk.run(*COMMANDS[command])
    assert_finished(disk, done, expected)
    assert {line for line in wanted if line not in done.stdout} == set()


@pytest.mark.first_case
@pytest.mark.parametrize("fault", ["full", errno.EACCES])
@pytest.mark.parametrize("command", WRITING)
def test_each_file_that_is_written(command, fault, disk):
    expected, _ = disk.undisturbed(command)
    found = own_kinds(disk, command, WRITES[: -1 if fault == "full" else None])
    assert len(found) > 1
    for event in found:
        disk.clear()
        done = disk.run(*COMMANDS[command], fault=fault, at=event)
        line = told(disk, command, done, fault)
        assert TOLD[fault] in line, event
        # `prepare` tidies its folder of work when it is started again.
        left = [name for name in disk.results() if not name.startswith(".prepare/")]
        if event.pattern.endswith(".lock"):  # `faults.c` makes it, and then refuses it.
            left = [name for name in left if not event.pattern.endswith(name)]
        assert not [name for name in left if "writing" in name], event
        disk.has_room_again()
        goes_on(disk, command, expected)


@pytest.mark.first_case
@pytest.mark.parametrize("fault", [errno.EACCES, errno.EIO, errno.ENOENT])
@pytest.mark.parametrize("command", READING)
def test_each_input_that_cannot_be_read(command, fault, disk):
    """Neither the first time nor, a file that vanishes meanwhile, the last time."""
    expected, events = disk.undisturbed(command)
    inputs = [e for e in kinds(events) if (e.what, e.pattern[:3]) == ("read", "in/")]
    # TensorFlow does without its fingerprint.
    inputs = [event for event in inputs if "fingerprint" not in event.pattern]
    assert inputs
    for event in inputs:
        for number in {1, events[event]}:
            disk.clear()
            done = disk.run(*COMMANDS[command], fault=fault, at=event, number=number)
            line = told(disk, command, done, fault)
            assert os.path.basename(event.pattern) in line
    goes_on(disk, command, expected)
