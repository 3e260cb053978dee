"""Commands that are killed with -9 while they write a file: at each, by turns.

The same command is started again after each kill, and ends as without. TFR_EXT_KILLS
says how many kills a command gets, at any kinds of file operations; by default, one at
each kind that `own_kinds` gives.
"""

import os
import random

import pytest

from tests.faults.disturbed import COMMANDS, assert_finished, kinds, own_kinds

# Operations that leave something behind.
WHAT = ("write", "rename", "renamed")


def assert_exports_are_whole(disk, expected):
    """What a server would see has all its files."""
    wanted = {name for name in expected if name.startswith("export/*/")}
    for version in disk.root.glob("out/export/[0-9]*"):
        found = {
            f"export/*/{path.relative_to(version)}"
            for path in version.rglob("*")
            if path.is_file() and path.stat().st_size
        }
        assert found == wanted


@pytest.mark.first_case
@pytest.mark.parametrize("command", sorted(COMMANDS, key=lambda name: name != "rank"))
def test_killed_at_each_file(command, disk):
    found = own_kinds(disk, command, WHAT)
    expected, events = disk.undisturbed(command)
    rng, limit = random.Random(), os.environ.get("TFR_EXT_KILLS")
    if limit:
        found = [event for event in kinds(events) if event.what in WHAT]
        chosen = rng.sample(range(len(found)), min(int(limit), len(found)))
        found = [found[i] for i in sorted(chosen)]
    counts = dict.fromkeys(["a checkpoint", "an export", "elsewhere", "too late"], 0)
    disk.clear()
    for event in found:
        delay = rng.choice([0, rng.randrange(3000)])
        done = disk.run(*COMMANDS[command], fault="killed", at=event, delay=delay)
        if done.returncode == 0:  # What had been done was not done again.
            assert_finished(disk, done, expected)
            counts["too late"] += 1
            disk.clear()
            continue
        # A process that the command had started may have been the one.
        assert done.returncode == -9 or "killed" in done.stderr or "-9" in done.stderr
        counts[event.stage] += 1
        assert_exports_are_whole(disk, expected)
    assert_finished(disk, disk.run(*COMMANDS[command]), expected)
    assert_exports_are_whole(disk, expected)
    print(f"{command}: killed in {counts}")
    assert len(found) > counts["too late"]
