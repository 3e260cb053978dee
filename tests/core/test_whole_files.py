"""What is written appears whole, where it belongs, and touches nothing else."""

import contextlib
import functools
import itertools
import os
import stat
import subprocess
import sys
import threading

import pytest

from tests.commands import ROOT
from tests.helpers import make_lists
from tfr_ext.core import files
from tfr_ext.core.system import lock
from tfr_ext.evaluation import trec

pytestmark = pytest.mark.any_keras

UMASK = 0o027
ABANDONED = files.aside_name("y", "0123abcd")


@contextlib.contextmanager
def folder(directory, text):
    """A version of a model as `exporter` writes it."""
    with files.folder_aside(directory) as aside:
        with files.text_file(os.path.join(aside, "model.json")) as file:
            yield file
        os.rename(aside, os.path.join(directory, "1"))


OPEN = {
    "whole_file": files.whole_file,
    "text_file": files.text_file,
}


def write(kind, path, text, error=None):
    """Writes a text in two parts, with an error before the second one."""
    with OPEN[kind](path) as file:
        as_given = str.encode if kind == "whole_file" else str
        file.write(as_given(text[:1]))
        file.flush()
        if error is not None:
            raise error
        file.write(as_given(text[1:]))


WRITERS = {
    "whole_file": functools.partial(write, "whole_file"),
    "text_file": functools.partial(write, "text_file"),
    "write_atomically": files.write_atomically,
}


# What may be there before. Each returns the names that a write removes.


def nothing(root, stack):
    return set()


def a_file(root, stack, mode=0o604):
    (root / "x").write_text("old")
    (root / "x").chmod(mode)
    return set()


def a_private_file(root, stack):
    return a_file(root, stack, 0o600)


def a_file_that_may_only_be_read(root, stack):
    return a_file(root, stack, 0o444)


def a_link(root, stack):
    (root / "there").mkdir()
    (root / "there" / "y").write_text("old")
    (root / "there" / "y").chmod(0o606)
    (root / "there" / ABANDONED).write_text("half")
    (root / "x").symlink_to("there/y")
    return {f"there/{ABANDONED}"}


def a_link_to_a_link(root, stack):
    (root / "y").write_text("old")
    (root / "z").symlink_to(root / "y")
    (root / "x").symlink_to("z")
    return set()


def a_dangling_link(root, stack):
    (root / "x").symlink_to("there/y")
    return set()


def files_of_somebody(root, stack):
    (root / "mine").mkdir()
    for name in ("mine/a", ".tfr_ext-writing-a", ".tfr_ext-writing-0123abcd", "x.lock"):
        (root / name).write_text("mine")
    (root / "x.writing").symlink_to("mine/a")
    for name in ("mine", "mine/a"):
        (root / files.aside_name(name[-1], "01234567")).symlink_to(name)
    return set()


def leftovers_of_the_dead(root, stack):
    names = [files.aside_name(x, "89abcdef") for x in ("x", "version", "x.lock")]
    (root / names[0]).write_text("half")
    (root / names[1] / "variables").mkdir(parents=True)
    (root / names[1] / "variables" / "part").write_text("half")
    (root / names[2]).touch()
    return {name for name in snapshot(root) if name.startswith(tuple(names))}


def work_of_the_living(root, stack):
    for kind in OPEN:
        stack.enter_context(OPEN[kind](str(root / kind)))
    stack.enter_context(files.whole_file(str(root / "x")))
    made = stack.enter_context(files.folder_aside(str(root)))
    (root / made / "part").write_text("half")
    stack.enter_context(lock.alone_with(str(root / "y"), "ranking"))
    return set()


BEFORE = (
    *(nothing, a_file, a_private_file, a_file_that_may_only_be_read, a_link),
    *(a_link_to_a_link, a_dangling_link, files_of_somebody, leftovers_of_the_dead),
    work_of_the_living,
)


def snapshot(root):
    """What is below a folder: the mode, and the text or the target, of each name."""
    found = {}
    for path in root.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        what = os.readlink(path) if path.is_symlink() else None
        if what is None:
            what = path.read_text() if path.is_file() else ()
        found[str(path.relative_to(root))] = mode, what
    return found


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(UMASK)
    yield
    os.umask(before)


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_changes_its_file_and_nothing_else(writer, before, tmp_path):
    path = tmp_path / "x"
    with contextlib.ExitStack() as stack:
        gone = before(tmp_path, stack)
        expected = {k: v for k, v in snapshot(tmp_path).items() if k not in gone}
        written = path.resolve()
        mode = 0o666 & ~UMASK
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
        expected[str(written.relative_to(tmp_path))] = mode, "new"
        if written.parent != tmp_path and not written.parent.exists():
            expected[written.parent.name] = 0o777 & ~UMASK, ()
        WRITERS[writer](str(path), "new")
        assert snapshot(tmp_path) == expected
    # What was being written meanwhile is not lost.
    if before is work_of_the_living:
        assert sorted(os.listdir(tmp_path)) == sorted([*OPEN, "x"])


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("writer", OPEN)
def test_an_error_changes_nothing(writer, before, tmp_path):
    with contextlib.ExitStack() as stack:
        gone = before(tmp_path, stack)
        expected = {k: v for k, v in snapshot(tmp_path).items() if k not in gone}
        with pytest.raises(KeyboardInterrupt):
            write(writer, str(tmp_path / "x"), "new", KeyboardInterrupt())
        found = snapshot(tmp_path)
        if before is a_dangling_link:
            assert found.pop("there") == (0o777 & ~UMASK, ())
        assert found == expected


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("fails", [False, True])
def test_a_folder_appears_whole_or_not_at_all(fails, before, tmp_path):
    with contextlib.ExitStack() as stack:
        gone = {x for x in before(tmp_path, stack) if not x.startswith("there")}
        expected = {k: v for k, v in snapshot(tmp_path).items() if k not in gone}
        with contextlib.suppress(KeyboardInterrupt):
            with folder(str(tmp_path), "new") as file:
                file.write("new")
                assert not (tmp_path / "1").exists()
                if fails:
                    raise KeyboardInterrupt
        if not fails:
            expected["1"] = 0o777 & ~UMASK, ()
            expected["1/model.json"] = 0o666 & ~UMASK, "new"
        assert snapshot(tmp_path) == expected


@pytest.mark.parametrize(
    "pair", itertools.combinations_with_replacement(OPEN, 2), ids="-".join
)
def test_of_two_writers_one_wins(pair, tmp_path):
    """Both write in turns; the file is whole at each moment."""
    path, steps = tmp_path / "x", 20
    turns, errors = threading.Barrier(3, timeout=30), []

    def work(kind, letter):
        try:
            with OPEN[kind](str(path)) as file:
                for _ in range(steps):
                    turns.wait()
                    file.write(letter.encode() if kind == "whole_file" else letter)
                    file.flush()
        except BaseException as error:
            errors.append(error)
            turns.abort()

    threads = [
        threading.Thread(target=work, args=case) for case in zip(pair, ("a", "b"))
    ]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        for _ in range(steps):
            assert not path.exists()
            turns.wait()
    for thread in threads:
        thread.join()
    assert not errors
    assert path.read_text() in ("a" * steps, "b" * steps)
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_process_holds_is_kept_while_it_lives(tmp_path):
    """A directory, an output, a file and a folder, until the process is killed."""
    root, out = tmp_path / "root", tmp_path / "deep" / "out"
    code = (
        "import sys, time; from tfr_ext.core import files\n"
        "from tfr_ext.core.system import lock\n"
        f"root, out = {str(root)!r}, {str(out)!r}\n"
        "with (lock.alone(out, 'training'), lock.alone_with(f'{root}/x', 'ranking'),\n"
        "      files.whole_file(f'{root}/x') as x, files.folder_aside(root)):\n"
        "    x.write(b'half'); x.flush(); print('held', flush=True); time.sleep(99)"
    )
    root.mkdir()
    (root / "link").symlink_to("x")
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        held = snapshot(tmp_path)
        assert len(os.listdir(root)) == 4
        with lock.alone(str(root), "training"):
            files.write_atomically(str(root / "y"), "new")
            with lock.alone_with(str(root / "y"), "ranking"):
                pass
        (root / "y").unlink()
        for name in ("x", "link"):
            with pytest.raises(
                ValueError, match=rf"is writing {root}/{name}\. Wait for"
            ):
                with lock.alone_with(str(root / name), "ranking"):
                    pass
        with pytest.raises(
            ValueError, match=rf"process is at work in {out}\. Wait for"
        ):
            with lock.alone(str(out), "training"):
                pass
        assert snapshot(tmp_path) == held
        holder.kill()
    for directory in (root, out):
        with lock.alone(str(directory), "training"):
            pass
    assert (os.listdir(root), os.listdir(out)) == (["link"], [])
    with lock.alone(str(tmp_path / "new" / "out"), "training"):
        pass
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("writer", WRITERS)
def test_names_as_long_as_they_may_be(writer, tmp_path):
    for name in ("x" * 255, "\N{GRINNING FACE}" * 63, "\udcff" * 255):
        path = str(tmp_path / name)
        with lock.alone_with(path, "ranking"):
            WRITERS[writer](path, "new")
        assert os.listdir(tmp_path) == [name]
        os.remove(path)


@pytest.mark.parametrize("writer", WRITERS)
def test_pipes_and_devices_are_written_as_they_are(writer, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    WRITERS[writer](str(tmp_path / "pipe"), "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    before = os.stat(os.devnull)
    WRITERS[writer](os.devnull, "new")
    assert os.path.samestat(before, os.stat(os.devnull))
    # As `/dev/stdout` of a process whose output goes on to another one.
    ends = os.pipe()
    WRITERS[writer](f"/proc/self/fd/{ends[1]}", "new")
    assert os.read(ends[0], 9) == b"new"
    for end in ends:
        os.close(end)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_run_that_cannot_be_written_leaves_the_one_before(tmp_path):
    lists = make_lists([2, 3])
    lists.query_ids[1] = ""
    (tmp_path / "run").write_text("old")
    with pytest.raises(ValueError, match="the name of a query"):
        trec.write_run(str(tmp_path / "run"), lists, lists.labels, "tag")
    assert snapshot(tmp_path).keys() == {"run"}
    assert (tmp_path / "run").read_text() == "old"


def test_without_locks_nothing_aside_is_removed(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    (tmp_path / ABANDONED).write_text("half")
    with files.whole_file(str(tmp_path / "x")), files.folder_aside(str(tmp_path)):
        before = snapshot(tmp_path)
        files.write_atomically(str(tmp_path / "y"), "new")
        (tmp_path / "y").unlink()
        assert snapshot(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == [ABANDONED, "x"]


def test_the_lock_of_the_next_holder_stays(tmp_path, monkeypatch):
    """Between the opening and the locking of what a process seems to have left."""
    path, flock = str(tmp_path / "x"), files.fcntl.flock
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(lock.alone_with(path, "ranking"))

        def change_hands(*arguments):
            monkeypatch.undo()
            first.close()
            second.enter_context(lock.alone_with(path, "ranking"))
            flock(*arguments)

        monkeypatch.setattr(files.fcntl, "flock", change_hands)
        files.remove_abandoned(str(tmp_path))
        with pytest.raises(ValueError, match="is writing"):
            with lock.alone_with(path, "ranking"):
                pass
    assert not os.listdir(tmp_path)


def test_a_directory_that_another_process_removes_is_made_again(tmp_path, monkeypatch):
    removed, make = [tmp_path / "a"], os.mkdir

    def mkdir(path, *arguments):
        if removed and os.path.dirname(path) == str(removed[0]):
            removed.pop().rmdir()
        make(path, *arguments)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with lock.alone(str(tmp_path / "a" / "b"), "training"):
        assert not removed
