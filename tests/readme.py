"""Runs the README's commands on tiny files, as a user with a fresh install does.

With them those of docs/guide/commands.md, to which the README leads.

PYTHON tests/readme.py, from anywhere, with an environment that has the package and what
it requires, and nothing more: `make wheel` makes one. Each command must end well and
write nothing to the standard error but warnings of the package itself, and no progress
bar to the standard output. A command that needs a package which is not there is left
out, and so is a block that says why it cannot run, as it needs a server. Arguments are
words of which a command must have one to be run; 'extras' are those of commands that
need a package of an extra.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What stands for something in the README, and what stands for it here.
WORDS = {
    "FILE": "judged.txt",
    "DOWNLOADS": "downloads",
    "SHARDS": "shards",
    "NAME": "wassrank_variance",
}
# What is given besides, to be quick, to these commands.
MORE = {
    "train": "--num_epochs=1 --hidden_sizes=4",
    "train_gbm": "--num_trees=3",
    "quickstart": "--synthetic_num_queries=20",
    "experiment": "--num_epochs=1 --folds=1 --seeds=1 --manual_dir=DOWNLOADS",
}
# Words of commands that need a package of an extra; runs/b is of a loss of TFR's.
NEEDED = {
    "runs/b": "tensorflow_ranking",
    "lambda_weight": "tensorflow_ranking",
    "DOWNLOADS": "tensorflow_datasets",
    "train_gbm": "lightgbm",
}
# In this order: the guide trains what the README compares.
PAGES = ("docs/guide/commands.md", "README.md")
WANTED = (
    *("train", "evaluate", "export", "prepare", "rank", "compare"),
    *("experiment", "fuse", "train_gbm"),
)
# A block that this script does not run either.
NOT_RUN = re.compile(
    r"<!-- not run: (?!tests/readme\.py)[^>]*-->\s*^```.*?^```$", re.M | re.S
)
# What the package itself has to say, such as of a loss.
OWN_WARNING = re.compile(
    r"^W\d{4} [\d:.]+ \d+ (?:fitter|callbacks)\.py:\d+\] .*\n", re.M
)
NO_LINE = re.compile(r"[\b\r\x1b]|\[=*>?\.*\] ")


def commands() -> list[str]:
    """Returns the commands of the pages that are the package's own, in their order."""
    makefile = (ROOT / "Makefile").read_text()
    demo = re.search(r"^demo:.*\n\t\$\(RUN\) (.*)", makefile, re.M)
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    text = NOT_RUN.sub("", text).replace("\\\n", " ")
    text = re.sub("^make demo .*", f"python {demo[1]}", text, flags=re.M)
    start = r"(?:\.venv/bin/)?(?:python -m pipelines\.|tfr-ext )"
    own = rf"(?:^|`)({start}\w+ [^`\n]*|\.\.\. --.*)"
    found, full, runs = {}, "", iter(["runs/a/1", "runs/b/1", "runs/c/1"])
    for command in re.findall(own, text, re.M):
        if command.startswith("..."):  # The one before, with other flags.
            command = f"{full} --model_dir={next(runs)} {command[3:]}"
        else:
            full = command
        command = " ".join(command.partition("  #")[0].split())
        # Both pages may have it, once as `tfr-ext` and once as `python -m`.
        found.setdefault(re.sub(start, "", command), command)
    missing = {*WANTED} - {*map(name_of, found.values())}
    if missing:
        sys.exit(f"No page has a command of {', '.join(missing)}.")
    return [*found.values()]


def name_of(command: str) -> str:
    """Returns which of the package's commands this is."""
    return re.search(r"(?:pipelines\.|tfr-ext )(\w+)", command)[1]


def completed(command: str) -> str:
    """Returns a command with the flags that make it quick."""
    found = [name_of(command), *re.findall("quickstart", command)]
    return " ".join([command, *(MORE[word] for word in found if word in MORE)])


def lacks(command: str) -> str | None:
    """Returns a package that a command needs and the environment does not have."""
    packages = [package for word, package in NEEDED.items() if word in command]
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return missing[0] if missing else None


def write_files(directory: pathlib.Path) -> None:
    """Writes what the commands read."""
    import layouts  # Beside this script.

    shutil.copytree(ROOT / "configs", directory / "configs")
    text = layouts.letor_text("train", 5, num_queries=12)
    (directory / WORDS["FILE"]).write_text(text)
    for fold, num_features in (("MQ2008/Fold1", 46), ("MSLR-WEB30K/Fold1", 136)):
        layouts.write_fold(directory / WORDS["DOWNLOADS"] / fold, num_features)


def run(command: str, directory: pathlib.Path) -> str:
    """Runs a command, and returns what is wrong with how it went, or ''."""
    words = {**WORDS, "DIR": f"results/{name_of(command)}"}
    command = re.sub(
        r"\b[A-Z]{3,}\b", lambda word: words.get(word[0], word[0]), command
    )
    print(f"\n$ {command}", flush=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "PYTHON"))}
    start = time.monotonic()
    program, *arguments = shlex.split(command)
    here = os.path.dirname(sys.executable)
    done = subprocess.run(
        [os.path.join(here, os.path.basename(program)), *arguments],
        cwd=directory,
        env={**kept, "HOME": str(directory)},
        capture_output=True,
        text=True,
    )
    last = done.stdout.rstrip().rpartition("\n")[2]
    print(f"{last}\n({time.monotonic() - start:.0f} s)", flush=True)
    if done.returncode:
        return f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    noise = OWN_WARNING.sub("", done.stderr)
    if noise:
        return f"wrote to the standard error:\n{noise}"
    if NO_LINE.search(done.stdout):
        return f"drew where there is no terminal:\n{done.stdout!r}"
    return ""


def main() -> None:
    """Runs all commands, and ends with 1 if something is wrong with one."""
    failed = False
    with tempfile.TemporaryDirectory() as name:
        write_files(pathlib.Path(name))
        words = [NEEDED if x == "extras" else [x] for x in sys.argv[1:] or [""]]
        given = [*itertools.chain(*words)]
        chosen = [x for x in commands() if any(word in completed(x) for word in given)]
        if not chosen:
            sys.exit(f"No page has a command with {' or '.join(given)}.")
        for command in map(completed, chosen):
            missing = lacks(command)
            if missing:
                print(f"\n$ {command}\n(left out: {missing} is not installed)")
                continue
            wrong = run(command, pathlib.Path(name))
            if wrong:
                failed = True
                print(f"FAILED, as it {wrong}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
