"""The Python and shell blocks of the pages run, and say what they need if they cannot.

`<!-- not run: REASON -->` before a block leaves it out; the flags of this package's
commands in it are parsed all the same. `pytest -rs` lists these blocks.
"""

import importlib.util
import json
import re

import pytest

from pipelines.start.console import abouts
from tests import fork_server
from tests.docs import commands, given, pages
from tfr_ext import _stack
from tfr_ext.losses.tfr import names

PAGES = pages.names()
# What words in a block need, where a stack does not have it.
NEEDED = {
    "TensorFlow Ranking": (
        rf"tensorflow_ranking|tfr_ext\.tfr|elwc|lambda_weight|{'|'.join(names.LOSSES)}",
        lambda: _stack.tfr_problem() is None,
    ),
    "TensorFlow Datasets": (
        r"manual_dir|datasets\.",
        lambda: importlib.util.find_spec("tensorflow_datasets") is not None,
    ),
}


# Flags in the text of pages that no command defines: absl's, Bazel's, Beam's, and that
# of an example.
FOREIGN = {
    *("flagfile", "help"),
    *("python_path", "test_filter"),
    *("environment_type", "sdk_container_image"),
    "warmth",
}
INLINE = re.compile(r"`--(\w+)(?:=([^`\s]*))?(?=[`\s])")


def run_blocks(page, language):
    """The blocks that are run here."""
    if page in given.SERVED:
        return []
    return [x for x in pages.blocks(page) if x.language == language and not x.not_run]


def skip_without(page, *languages):
    """Skips a page of which a block needs a package that is not there."""
    text = "".join(x.text for x in pages.blocks(page) if x.language in languages)
    for package, (words, is_there) in NEEDED.items():
        if re.search(words, text) and not is_there():
            pytest.skip(f"{page} needs {package}")


def test_there_are_pages():
    assert {"README.md", "docs/extending.md", "docs/guide/training.md"} <= {*PAGES}
    assert len(PAGES) > 30


@pytest.mark.parametrize("page", PAGES)
def test_each_block_says_what_it_is(page):
    for block in pages.blocks(page):
        where = f"{page}:{block.line}"
        assert block.language in pages.RUN + pages.SHOWN, where
        assert not block.not_run or block.language in pages.RUN, where
        if block.language == "python":
            compile(block.text, where, "exec")
        if block.language == "json":
            assert [json.loads(line) for line in block.text.splitlines()], where


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.grid] if page in given.SLOW else [])
        for page in PAGES
        if run_blocks(page, "python")
    ],
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    skip_without(page, "python")
    monkeypatch.setenv("HOME", str(tmp_path))
    given.write_files(page, tmp_path)
    done = fork_server.run("tests.docs.run_python", [page], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def own_lines(page):
    readers = {"sh": commands.lines, "text": commands.lines_of_flags}
    return [
        line
        for block in pages.blocks(page)
        if block.language in readers
        for line in readers[block.language](block.text)
        if commands.own(page, line)
    ]


@pytest.fixture(scope="module")
def wrong_flags():
    """The errors of all lines with commands, by page and line."""
    return commands.wrong_flags(
        [(page, line) for page in PAGES for line in own_lines(page)]
    )


@pytest.mark.parametrize("page", [x for x in PAGES if own_lines(x)])
def test_commands_have_the_flags(page, wrong_flags):
    skip_without(page, "sh", "text")
    for line in own_lines(page):
        assert not wrong_flags[page, line], line


@pytest.mark.grid
@pytest.mark.parametrize("page", [x for x in PAGES if run_blocks(x, "sh")])
def test_shell_blocks_run(page, tmp_path, monkeypatch):
    skip_without(page, "sh")
    monkeypatch.setenv("HOME", str(tmp_path))
    given.write_files(page, tmp_path)
    for block in run_blocks(page, "sh"):
        for line in commands.lines(block.text):
            assert not commands.run(page, line, tmp_path), f"{page}: {line}"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{page}:{block.line}")
        for page in PAGES
        for block in pages.blocks(page)
        if block.not_run
    ],
)
def test_blocks_that_are_not_run(block):
    assert len(block.not_run.split()) > 1
    pytest.skip(block.not_run)


@pytest.fixture(scope="module")
def known_flags():
    """By name, the values that the flags of all commands may have."""
    known = {}
    for command in abouts():
        done = fork_server.run("tests.docs.list_flags", [command])
        for name, values in json.loads(done.stdout).items():
            known.setdefault(name, set()).update(values or [".*"])
    return known


def wrong_inline(text, known):
    """The flags in a text that no command has, or not with that value."""
    wrong = []
    for found in INLINE.finditer(text):
        name, value = found.groups()
        if name in FOREIGN:
            continue
        allowed = known.get(name, known.get(name.removeprefix("no")))
        if allowed is None:
            wrong.append(found[0])
        elif value and not value.isupper() and allowed.isdisjoint({".*", value}):
            wrong.append(found[0])
    return wrong


def test_flags_in_the_text_are_known(known_flags):
    for path in [pages.ROOT / "README.md", *(pages.ROOT / "docs").rglob("*.md")]:
        assert not wrong_inline(path.read_text(), known_flags), path


def test_a_wrong_flag_in_the_text_is_seen(known_flags):
    text = "`--seed`, `--noexport_model`, `--label_sampling=run`, `--dataset=NAME`"
    assert wrong_inline(text, known_flags) == []
    text = "`--sed`, `--noseed_x`, `--label_sampling=binomial`"
    assert wrong_inline(text, known_flags) == [
        "`--sed",
        "`--noseed_x",
        "`--label_sampling=binomial",
    ]


def test_a_wrong_flag_and_a_wrong_command_are_seen():
    lines = (
        *("tfr-ext train --model_dir=x", "tfr-ext train --no_such=1"),
        *("... --loss_param=no_such=1", "python -m pipelines.no_such --x=1"),
        "tfr-ext train --num_epochs=3",
    )
    page = "docs/guide/training.md"
    said = commands.wrong_flags([(page, line) for line in lines])
    assert [bool(said[page, line]) for line in lines] == [0, 1, 1, 1, 0]
    assert all("no_such" in said[page, line] for line in lines[1:4])
