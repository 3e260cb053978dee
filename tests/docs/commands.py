"""Shell blocks: the commands in them, and how each is run or checked."""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

from tests import fork_server
from tests.docs import pages

# The commands of this package, as pages write them.
OWN = re.compile(
    r"(?:\.venv/bin/)?(?:python -m pipelines\.|tfr-ext )(\w+)\s*([^|]*)$", re.S
)
# Flags that make a command quick. They stand last, so that they hold.
MORE = {
    "train": "--num_epochs=1 --hidden_sizes=4 --synthetic_num_queries=40 --overwrite",
    "evaluate": "--synthetic_num_queries=40",
    "experiment": "--num_epochs=1 --folds=1 --hidden_sizes=4",
}
# What a line of flags alone, or one that begins with `...`, belongs to. Else: train.
OWNER = {"docs/guide/prepare.md": "prepare", "docs/guide/experiments.md": "experiment"}


def lines(text):
    """The command lines of a block, without comments."""
    joined = text.replace("\\\n", " ").splitlines()
    return [line for line in (_without_comment(x) for x in joined) if line]


def lines_of_flags(text):
    """A block of nothing but flags, as a flag file is, in one line; none of others."""
    found = [line for line in lines(text) if line]
    if not all(line.startswith("--") for line in found):
        return []
    return [" ".join(map(_quoted, found))]


def own(page, line):
    """The commands of this package in a line, as pairs of name and arguments."""
    found = []
    if line.startswith(("... --", "--")):
        line = f"tfr-ext {OWNER.get(page, 'train')} {line}"
    for part in line.split(" | "):
        command = OWN.fullmatch(part.strip())
        if command:
            words = [word for word in shlex.split(command[2]) if word != "..."]
            found.append((command[1], words))
    return found


def wrong_flags(lines):
    """What the parsers of the commands in lines say of their flags.

    Args:
        lines: pairs of a page and a line of it.

    Returns:
        By such a pair, the errors of the commands in it, or ''.
    """
    said = dict.fromkeys(lines, "")
    calls = {}
    for place in said:
        for name, words in own(*place):
            calls.setdefault(name, []).append((place, words))
    for name, found in calls.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([words for _, words in found], file)
            file.flush()
            done = fork_server.run("tests.docs.parse_flags", [name, file.name])
        errors = [done.stderr] * len(found)
        if not done.returncode:
            errors = json.loads(done.stdout.splitlines()[-1])
        for (place, _), error in zip(found, errors):
            said[place] += error and f"{name}: {error[-700:]}\n"
    return said


def run(page, line, directory):
    """Runs a line in a directory, and returns what is wrong with how it went, or ''.

    Commands of this package get more flags, to be quick. What `make` is asked for must
    be in the Makefile, and is not made.
    """
    if line.startswith("make "):
        return _wrong_target(line)
    if line.startswith("..."):
        line = line.replace("...", "tfr-ext train --flagfile=quickstart", 1)
    if line == "tfr-ext":  # It prints what --help prints, and ends with 1.
        line = "tfr-ext --help"
    parts = line.split(" | ") if own(page, line) else [line]
    last = directory / "piped"
    last.write_text("")
    for part in parts:
        done = _run_part(page, part.strip(), directory, last)
        if done.returncode:
            return f"{part}:\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
        last.write_text(done.stdout)
    return ""


def _run_part(page, part, directory, stdin):
    for name, words in own(page, part):
        judged = any(word.startswith("--qrels") for word in words)  # Not a data set.
        flags = [*words, *([] if judged else MORE.get(name, "").split())]
        return fork_server.run(f"pipelines.{name}", flags, directory, stdin)
    console = f"{sys.executable} -m tests.as_console"
    with open(stdin) as file:
        return subprocess.run(
            ["bash", "-ec", f'tfr-ext() {{ {console} "$@"; }}; {part}'],
            stdin=file,
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(pages.ROOT)},
            capture_output=True,
            text=True,
        )


def _wrong_target(line):
    makefile = (pages.ROOT / "Makefile").read_text()
    words = [word for word in line.split()[1:] if "=" not in word]
    known = re.findall(r"^([\w-]+):", makefile, re.M)
    return "" if {*words} <= {*known} else f"make has no {words}"


def _quoted(flag):
    """A line of a flag file, whose values may have blanks, as a shell takes it."""
    several = flag.startswith("--method=")
    return shlex.quote(flag) if several else flag


def _without_comment(line):
    return re.sub(r"(^|\s)#\s.*", "", line).strip()
