"""Commands that work on small files amid the faults of `faults.c`."""

import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests import fork_server
from tests.commands import run_command
from tests.files import content, write_run, write_text
from tfr_ext.runs import run_progress

SOURCE = pathlib.Path(__file__).with_name("faults.c")
_SMALL = (
    "--model=mlp",
    "--hidden_sizes=4",
    "--num_epochs=2",
    "--batch_size=8",
    "--verbose=line",
)
_DATA = ("--dataset=text", "--train_path={root}/in/train.txt", "--num_features=6")
_OFTEN = (*_SMALL, "--checkpoint_minutes=1e-9", "--metrics=ndcg_10,map")
_TRAIN = (*_DATA, *_OFTEN)
_LOSS = "--loss=list_net_loss"  # Its graph is small.
_TEST = ("--dataset=text", "--test_path={root}/in/train.txt")

# The flags of each command, by what tests call it; what it reads is in {root}/in, and
# what it writes in {root}/out.
COMMANDS = {
    "train": ("train", *_TRAIN, _LOSS, "--model_dir={root}/out"),
    "stream": (
        *("train", "--dataset=elwc", "--data_dir={root}/in/shards", "--stream"),
        *(*_OFTEN, _LOSS, "--model_dir={root}/out"),
    ),
    "ensemble": ("train", *_TRAIN, _LOSS, "--num_models=2", "--model_dir={root}/out"),
    "parallel": (
        *("train", *_TRAIN, _LOSS, "--num_models=2", "--parallel_models=2"),
        "--model_dir={root}/out",
    ),
    "experiment": (
        *("experiment", *_TRAIN, "--method=A: --loss=list_net_loss", "--folds=1"),
        *("--seeds=1,2", "--jobs=1", "--output_dir={root}/out"),
    ),
    "train_gbm": ("train_gbm", *_DATA, "--num_trees=3", "--model_dir={root}/out"),
    "prepare": (
        *("prepare", *_DATA, "--shard_megabytes=0.01", "--num_workers=1"),
        "--output_dir={root}/out",
    ),
    "workers": (
        *("prepare", *_DATA, "--shard_megabytes=0.01", "--num_workers=2"),
        "--output_dir={root}/out",
    ),
    "evaluate": (
        *("evaluate", *_TEST, "--export={root}/in/run/export"),
        "--output_dir={root}/out",
    ),
    "rank": (
        *("rank", "--export={root}/in/run/export", "--input={root}/in/train.txt"),
        *("--output={root}/out/ranked.trec", "--overwrite"),
    ),
    "export": (
        *("export", "--model_dir={root}/in/run"),
        "--export_dir={root}/out/export",
    ),
    "compare": ("compare", "{root}/in/a", "{root}/in/b", "--output_dir={root}/out"),
}
# Commands whose code does a part of another's work.
_PARTS = {
    "train": ("export", "evaluate"),
    "stream": ("train",),
    "ensemble": ("train",),
    "parallel": ("ensemble",),
    "experiment": ("train",),
    "workers": ("prepare",),
}
# The name of a file with a random or a changing part, or with the time.
_CHANGING = re.compile(
    r"(?<=tempstate)\d+|[0-9a-f]{32}|(?<=tfevents).*"
    r"|(?<=-writing-)\w{8}"
    r"|(?<=export/)\d+(?=/|$)"
)
# The weights in a checkpoint stand amid the graph.
_GRAPH = re.compile(r"(saved_model|fingerprint)\.pb$|checkpoints/(last|best)-")

# When the inputs were last changed.
_CHANGED = 1e9


@dataclasses.dataclass(frozen=True)
class Event:
    """What a command did with a file, as a pattern of its name."""

    what: str
    pattern: str

    @property
    def kind(self):
        """The same for all epochs, models and parts."""
        return self.what, re.sub(r"[0-9a-f]{16}|\d+", "0", self.pattern)

    @property
    def name(self):
        """The same in whatever folder the file is."""
        return self.what, os.path.basename(self.kind[1])

    @property
    def stage(self):
        """What the command was at."""
        stages = {"checkpoints/": "a checkpoint", "-version/": "an export"}
        found = [name for part, name in stages.items() if part in self.pattern]
        return found[0] if found else "elsewhere"


class Disk:
    """A folder on whose disk there are faults.

    Attributes:
        root: the folder.
        inputs: the bytes of the files in {root}/in.
    """

    def __init__(self, folder):
        """Makes the inputs of all commands."""
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler for faults.c")
        self.root = folder / "root"
        self._library, self._log = folder / "faults.so", folder / "log"
        self._mark, self._undisturbed = folder / "full", {}
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", self._library, SOURCE, "-ldl", "-lrt"],
            check=True,
        )
        (self.root / "in").mkdir(parents=True)
        write_text(self.root / "in" / "train.txt", seed=1, queries=40)
        for name in ("a", "b"):
            write_run(self.root / "in" / name, {"map": [0.5, float(name == "a")]})
        small = (*_DATA, *_SMALL, _LOSS, "--nodraw_curves")
        for command, *flags in (
            ("train", *small, "--model_dir={root}/in/run"),
            (*COMMANDS["prepare"][:-1], "--output_dir={root}/in/shards"),
        ):
            given = [flag.format(root=self.root) for flag in flags]
            run_command(f"pipelines.{command}", *given)
        self.inputs = content(self.root / "in")

    def clear(self):
        """Makes all as it was before the command."""
        shutil.rmtree(self.root)
        for name, data in self.inputs.items():
            path = self.root / "in" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, (_CHANGED, _CHANGED))  # `prepare` keeps it in its plan.
        self._mark.unlink(missing_ok=True)

    def run(self, command, *flags, fault="", at=None, delay=0, number=1):
        """Runs a command amid a fault; returns what it said.

        Args:
            command: the command.
            *flags: its flags, with '{root}'.
            fault: as `faults.c` names it.
            at: the event at which it happens.
            delay: microseconds from there to a kill.
            number: at which of these events of a process.
        """
        self._log.unlink(missing_ok=True)
        environment = {
            "LD_PRELOAD": str(self._library),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TFR_EXT_FAULT_ROOT": str(self.root),
            "TFR_EXT_FAULT_LOG": str(self._log),
            "TFR_EXT_FAULT_MARK": str(self._mark),
            "TFR_EXT_FAULT_DELAY": str(delay),
        }
        if at is not None:
            environment |= {
                "TFR_EXT_FAULT": str(fault),
                "TFR_EXT_FAULT_AT": at.what,
                "TFR_EXT_FAULT_PATH": at.pattern,
                "TFR_EXT_FAULT_NUMBER": str(number),
            }
        given = [flag.format(root=self.root) for flag in flags]
        return fork_server.run(f"pipelines.{command}", given, environment=environment)

    def undisturbed(self, command):
        """What a command leaves without faults, and the events.

        Returns:
            The bytes of its files, None for those that differ each time, or where
            training went on: the graphs in an export and in checkpoints. The weights
            give the scores of run.trec. And the events, with their numbers.
        """
        if command not in self._undisturbed:
            self._undisturbed[command] = self._run_twice(command)
        return self._undisturbed[command]

    def _run_twice(self, command):
        runs = []
        for _ in range(2):
            self.clear()
            done = self.run(*COMMANDS[command])
            assert done.returncode == 0, done.stderr
            runs.append(self.results())
        first, second = runs
        assert first.keys() == second.keys()
        for name, data in first.items():
            if data != second[name] or _GRAPH.search(name):
                first[name] = None
        return first, self.events()

    def has_room_again(self):
        """Ends that the disk is full."""
        self._mark.unlink(missing_ok=True)

    def events(self):
        """What the last command did with files, and how often, in their order."""
        lines = self._log.read_text().splitlines()
        return collections.Counter(Event(*_pattern(line)) for line in lines)

    def going_on(self):
        """What is told where training goes on: one line for each unfinished run."""
        found = {
            path.parents[1]: run_progress.read_progress(str(path.parent))
            for path in self.root.glob("out/**/checkpoints/state.json")
        }
        return {
            f"Going on after {progress.describe()}."
            for run, progress in found.items()
            if progress.has_begun and not (run / "metrics.json").exists()
        }

    def results(self):
        """The bytes of what the commands wrote, by their names' patterns."""
        found = content(self.root / "out")
        for name in found:
            if os.path.basename(name).startswith(".written_by_"):
                # What an earlier attempt had written comes first there.
                found[name] = b"".join(sorted(found[name].splitlines(keepends=True)))
        return {
            _CHANGING.sub("*", name): _without_times(name, data)
            for name, data in found.items()
        }


def _without_times(name, data):
    """What a file says, without how long an experiment took, and its logs."""
    if name.endswith(("seconds.txt", "log.txt")):
        return b""
    if name.endswith("cells.tsv"):
        rows = [line.split("\t") for line in data.decode().splitlines()]
        at = rows[0].index("seconds")
        return [row[:at] + row[at + 1 :] for row in rows]
    if name.endswith("experiment.json"):
        of_this_go = "seconds", "cell_seconds", "cached"
        return {k: v for k, v in json.loads(data).items() if k not in of_this_go}
    return data


def _pattern(line):
    what, _, name = line.partition(" ")
    return what, _CHANGING.sub("*", name)


def kinds(events):
    """The first event of each kind: of all epochs, models and parts."""
    return list({event.kind: event for event in reversed(list(events))}.values())[::-1]


def own_kinds(disk, command, what):
    """One event of each kind that a command does with code of its own.

    Of what the code of another command does, there is the first event of each stage.

    Args:
        disk: the disk.
        command: the command.
        what: the kinds of operations.
    """
    found = [e for e in kinds(disk.undisturbed(command)[1]) if e.what in what]
    theirs = {
        event.name
        for part in _PARTS.get(command, ())
        for event in disk.undisturbed(part)[1]
    }
    first = {event.stage: event for event in reversed(found)}
    return [e for e in found if e.name not in theirs or e in first.values()]


def assert_finished(disk, done, expected):
    """A command has ended as without faults, and has left nothing else behind."""
    assert done.returncode == 0, done.stderr
    found = disk.results()
    assert found.keys() == expected.keys()
    differ = {name for name in found if expected[name] not in (None, found[name])}
    assert not differ, differ
    assert content(disk.root / "in") == disk.inputs
