"""Commands that may not write where they are told to: no right, or another's lock.

Each ends with one line that names the flag and the directory, and changes nothing.
"""

import contextlib
import os
import pathlib
import re
import shutil
import stat
import sys
import tempfile

import pytest

from tests import fork_server
from tests.faults.disturbed import COMMANDS
from tests.files import content, write_run, write_text
from tfr_ext.core.system import lock

# A user to whom no file belongs.
NOBODY = 65534
OTHERS = {
    "fuse": ("fuse", "{root}/in/run", "{root}/in/other", "--output_dir={root}/out"),
    "experiment": (
        *("experiment", "--method=A: --loss=list_net_loss", "--folds=1", "--seeds=1"),
        *(
            "--synthetic_num_queries=20",
            "--model=mlp",
            "--hidden_sizes=4",
            "--num_epochs=1",
        ),
        "--output_dir={root}/out",
    ),
}
# The flag that says where each command writes.
FLAGS = {
    "train": "model_dir",
    "train_gbm": "model_dir",
    "prepare": "output_dir",
    "evaluate": "output_dir",
    "rank": "output",
    "export": "export_dir",
    "compare": "output_dir",
    "fuse": "output_dir",
    "experiment": "output_dir",
}


def run(command, root, user=None, out="out"):
    name, *flags = {**COMMANDS, **OTHERS}[command]
    given = [
        flag.replace("{root}/out", f"{root}/{out}").format(root=root) for flag in flags
    ]
    return fork_server.run(
        f"pipelines.{name}", given, environment={"TF_CPP_MIN_LOG_LEVEL": "3"}, user=user
    )


def user_without_rights(*places):
    """Returns the number of a user who may not write; None for the present one.

    Skips the test if that user cannot read the code, or one of some other places.
    """
    if os.geteuid():
        return None
    for place in (fork_server.ROOT, *places):
        for folder in (place, *place.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                pytest.skip(f"other users than root cannot read the code: {folder}")
    return NOBODY


@pytest.fixture(scope="module")
def root():
    """A folder that all users may read, with the inputs of the commands."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "in").mkdir()
    write_text(folder / "in" / "train.txt", seed=1, queries=40)
    for name in ("a", "b"):
        write_run(folder / "in" / name, {"map": [0.5, float(name == "a")]})
    name, *flags = COMMANDS["train"]
    given = [flag.format(root=folder).replace("/out", "/in/run") for flag in flags]
    done = fork_server.run(f"pipelines.{name}", given)
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "in" / "run", folder / "in" / "other")
    yield folder
    shutil.rmtree(folder)


def state(root):
    """All files with what is in them, and all directories."""
    return content(root), sorted(path for path in root.rglob("*") if path.is_dir())


@pytest.mark.parametrize("there", [True, False], ids=["itself", "above"])
@pytest.mark.parametrize("command", FLAGS)
def test_a_directory_that_may_not_be_written(command, there, root):
    user = user_without_rights()
    out = root / "out"
    if there:
        out.mkdir()
    closed = out if there else root
    closed.chmod(0o555)
    before = state(root)
    try:
        done = run(command, root, user)
        assert done.returncode == 1, done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"Error: --{FLAGS[command]}={out}"), line
        assert " cannot be written: Permission denied. " in line
        assert state(root) == before
        if command != "rank":  # It says before it scores; the others before they read.
            assert not done.stdout
    finally:
        closed.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)


@contextlib.contextmanager
def held(command, root):
    """Holds the lock of what a command writes; gives the lock file."""
    out = root / "out"
    out.mkdir()
    place = out
    if command == "rank":
        place = out / "ranked.trec"
    elif command == "export":
        place = out / "export"
    hold = lock.alone_with if command == "rank" else lock.alone
    try:
        with hold(str(place), "something"):
            (path,) = [*out.rglob("*.lock")]
            yield path
    finally:
        shutil.rmtree(out)


@pytest.mark.parametrize("command", FLAGS)
def test_a_place_that_another_process_holds(command, root):
    with held(command, root):
        before = state(root)
        done = run(command, root)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1
        assert re.fullmatch(
            r"Error: This \w+ cannot start: another process is "
            rf"(at work in|writing) {root}/out\S*\. Wait for it to end, or choose "
            r"another (directory|file)\.",
            line,
        ), line
        assert state(root) == before


@pytest.mark.first_case("may_read")
@pytest.mark.parametrize("command", sorted(FLAGS))
@pytest.mark.parametrize("may_read", [True, False])
def test_the_lock_of_another_user(may_read, command, root):
    """One that nobody holds is in nobody's way, unless that cannot be found out."""
    # An experiment starts processes, which import Python's own modules.
    started = [pathlib.Path(sys.base_prefix)] if command == "experiment" else []
    user = user_without_rights(*started)
    if user is None:
        pytest.skip("only root can make files of another user")
    with held(command, root) as path:
        mode = path.stat().st_mode
    path.parent.mkdir(parents=True)
    path.touch()
    path.chmod(mode if may_read else 0o600)
    for folder in {root / "out", path.parent}:
        folder.chmod(0o777)
    try:
        done = run(command, root, user)
        if may_read:
            assert done.returncode == 0, done.stderr
            assert not path.exists()
        else:
            assert done.returncode == 1
            assert done.stderr == (
                f"Error: {path} belongs to root and cannot be read, so nothing says "
                "whether a process of root is at work there. If none is, remove this "
                "file, or have root remove it.\n"
            )
            assert path.exists()
    finally:
        shutil.rmtree(root / "out")


@pytest.mark.parametrize("out", ["file", "file/x/y"], ids=["itself", "above"])
@pytest.mark.parametrize("command", FLAGS)
def test_a_file_in_place_of_a_directory(command, out, root):
    (root / "file").write_text("mine")
    before = state(root)
    done = run(command, root, out=out)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: --{FLAGS[command]}={root}/{out}"), line
    assert "Errno" not in line.partition(" (")[0] and state(root) == before
    (root / "file").unlink()


@pytest.mark.parametrize("is_name", [True, False], ids=["name", "path"])
@pytest.mark.parametrize("command", FLAGS)
def test_a_directory_whose_name_is_too_long(command, is_name, root):
    """No file system holds names of 256 bytes, and Linux no paths of 4,096."""
    out = "x" * 256
    if not is_name:
        out = "/".join(["x" * 200] * 20)
        out += "/" + "y" * (4080 - len(f"{root}/{out}"))
    before = state(root)
    done = run(command, root, out=out)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: --{FLAGS[command]}={root}/{out}"), line
    assert " cannot be written: File name too long. " in line
    assert state(root) == before and not done.stdout
