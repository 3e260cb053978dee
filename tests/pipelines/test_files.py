"""No command touches files that it did not write, and none two runs at a time."""

import os
import re

import pytest

from pipelines.flags import path_flags
from tests.commands import PATHS, SMALL, run_command, told
from tests.files import content
from tfr_ext.core.system import lock
from tfr_ext.runs.owned_files import OwnedFiles

# Flags with which a command gets as far as its data; each names no loss or file of
# these lists, so that it fails there.
GIVEN = {
    "train": ("--model_dir={out}", "--overwrite"),
    "train_gbm": ("--model_dir={out}", "--overwrite"),
    "evaluate": ("--run={out}/absent.trec", "--output_dir={out}"),
    "compare": ("{out}/a", "{out}/b", "--output_dir={out}"),
    "experiment": ("--method=A: --loss=list_net_loss", "--output_dir={out}"),
    "fuse": ("{out}/absent", "--output_dir={out}"),
    "prepare": ("--output_dir={out}", "--overwrite"),
}
OUTPUTS = {
    "train": ("metrics.json", "run.trec", "flags.cfg", "checkpoints/last-1.index"),
    "train_gbm": ("metrics.json", "run.trec", "flags.cfg", "model.txt"),
    "evaluate": ("metrics.json", "run.trec", "flags.cfg"),
    "compare": ("table.md", "comparison.json"),
    "experiment": ("cells.tsv", "experiment.json", "table.tex"),
    "fuse": ("metrics.json", "run.trec", "per_query.tsv", "flags.cfg"),
    "prepare": ("manifest.json", "train-00000-of-00001.tfrecord"),
}
QUICK = tuple(flag for flag in SMALL if "num_epochs" not in flag)


@pytest.mark.parametrize("command", PATHS)
def test_empty_path_flags_are_refused(command, tmp_path):
    """All flags of a command at once: each is named."""
    names = [name for name in PATHS[command] if name != "flagfile"]
    flags = [f"--{name}=" for name in names]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    for name in names:
        assert f"flag --{name}=" in message, name
    place = {"train": "model_dir", "train_gbm": "model_dir"}
    place |= {"export": "export_dir", "rank": "output", "embed": "output"}
    place = place.get(command, "output_dir")
    flags = ["--flagfile=", f"--{place}={tmp_path}/out"]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    assert "--flagfile=: expected a path" in message
    assert not (tmp_path / "out").exists()


def test_every_flag_that_is_a_path_is_in_the_table():
    for command, names in PATHS.items():
        done = run_command(f"pipelines.{command}", "--helpshort", check=False)
        words = [line.strip() for line in done.stdout.splitlines()]
        found = {
            word[2:].partition(":")[0]
            for word in words
            if word.startswith("--")
            and word.partition(":")[0].endswith(
                ("_path", "_dir", "--export", "--run", "--scores", "put", "qrels")
            )
        }
        found -= {"model_dir"} if command == "experiment" else set()
        assert found <= {*names}, command


@pytest.mark.parametrize("arguments", [["--x="], ["-x="], ["--x", ""], ["--x= "]])
def test_ways_to_leave_a_flag_empty(arguments):
    assert path_flags.is_empty_in(["command", *arguments], "x")
    assert not path_flags.is_empty_in(["command", *arguments, "--x=a"][2:], "x")


# An input of each command in the place of one of its outputs.
INPUTS = [
    ("train", "--dataset=text", "--train_path={in}/run.trec"),
    ("train", "--rerank_run={in}/run.trec"),
    ("train_gbm", "--dataset=text", "--test_path={in}/metrics.json"),
    ("evaluate", "--run={in}/run.trec"),
    ("evaluate", "--scores={in}/metrics.json"),
    ("evaluate", "--scores=absent", "--dataset=text", "--test_path={in}/flags.cfg"),
    ("compare", "{in}/comparison.json", "{out}/../b"),
    ("experiment", *GIVEN["experiment"], "--valid_path={in}/cells.tsv"),
    ("embed", "--encoder=e", "--corpus={in}/a.csv"),
    ("embed", "--encoder=e", "--corpus=absent", "--queries=b", "--run={in}/a.csv"),
    ("fuse", "{in}", "{out}/../b"),
    ("fuse", "{out}/../b", "{in}/run.trec"),
    ("fuse", "{out}/../b", "--qrels={in}/flags.cfg"),
    ("prepare", "--dataset=text", "--train_path={in}/train-00000-of-00001.tfrecord"),
    ("rank", "--input={in}/a.csv", "--export={out}/../b"),
    ("rank", "--input={out}/../b/new.txt", "--export={in}"),
]


@pytest.mark.first_case("given")
@pytest.mark.parametrize("through", ["a linked folder", "itself", "a link"])
@pytest.mark.parametrize("given", INPUTS, ids=" ".join)
def test_an_input_is_not_replaced(given, through, tmp_path):
    """Also where the command has written it, and is to overwrite it."""
    command, *flags = given
    out, place = tmp_path / "out", tmp_path / "in"
    names = OUTPUTS.get(command, ("a.csv",))
    OwnedFiles(command, "", str(out), [x.partition("/")[0] for x in names]).claim()
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("1 qid:1 1:1\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "new.txt").write_text("qid:1 1:1\n")
    if through == "itself":
        place = out
    elif through == "a linked folder":
        place.symlink_to(out)
    else:
        place.mkdir()
        for name in os.listdir(out):
            (place / name).symlink_to(out / name)
    if through == "a link" and "{in}" in (*flags, flags[-1].partition("=")[2]):
        pytest.skip("a folder is not a link of its files")
    where = {"rank": "--output={out}/a.csv", "embed": "--output={out}/a.csv"}
    where |= {"train": "--model_dir={out}"}
    where["train_gbm"] = where["train"]
    flags.append(where.get(command, "--output_dir={out}"))
    if command in ("train", "train_gbm", "prepare", "rank", "embed"):
        flags.append("--overwrite")
    before = content(out)
    flags = [flag.format(**{"in": place, "out": out}) for flag in flags]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    assert re.search("is an input|which is an input|also holds the source", message)
    assert str(out) in message
    assert content(out) == before


def test_a_ranking_does_not_replace_its_flag_files(tmp_path):
    (tmp_path / "a.cfg").write_text("--topn=3\n")
    (tmp_path / "b.cfg").write_text(f"--flagfile={tmp_path}/a.cfg\n")
    (tmp_path / "new.txt").write_text("qid:1 1:1\n")
    before = content(tmp_path)
    for name in ("a.cfg", "b.cfg"):
        flags = [f"--flagfile={tmp_path}/b.cfg", f"--output={tmp_path}/{name}"]
        flags += [f"--input={tmp_path}/new.txt", "--export=b", "--format=trec"]
        flags.append("--overwrite")
        message = told(run_command("pipelines.rank", *flags, check=False))
        assert f"--output={tmp_path}/{name} is a flag file of this command" in message
    assert content(tmp_path) == before


@pytest.mark.parametrize("command", GIVEN)
def test_a_failing_command_leaves_every_file_as_it_was(command, tmp_path):
    """With a data file that is not there, in a directory of somebody's files."""
    everything = [name for several in OUTPUTS.values() for name in several]
    for owner in ("nobody", command):
        out = tmp_path / owner
        names = [*everything, "notes.txt"]
        if owner == command:
            names = [*OUTPUTS[command], "notes.txt"]
            own = {name.partition("/")[0] for name in OUTPUTS[command]}
            OwnedFiles(command, "", str(out), [*own]).claim()
        for name in names:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text("mine")
        before = content(out)
        flags = [flag.format(out=out) for flag in GIVEN[command]]
        if command not in ("compare", "fuse"):
            absent = "test_path" if command == "evaluate" else "train_path"
            flags += ["--dataset=text", f"--{absent}={tmp_path}/absent.txt"]
        message = told(run_command(f"pipelines.{command}", *flags, check=False))
        if owner == command:
            assert "absent" in message or "nothing is at" in message
        assert content(out) == before


@pytest.mark.first_case
@pytest.mark.parametrize("name", OUTPUTS["train"])
def test_foreign_files_are_named_and_stay(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    for flags in ((), ("--overwrite",)):
        message = told(
            run_command(
                "pipelines.train",
                *SMALL,
                f"--model_dir={tmp_path}",
                *flags,
                check=False,
            )
        )
        assert f"did not write and would replace: {name.split('/')[0]}" in message
    assert content(tmp_path) == {name: b"mine"}


def files(directory, *names):
    return OwnedFiles("test", "output_dir", str(directory), names)


def test_what_a_record_has_may_be_replaced_and_no_more(tmp_path):
    ours = files(tmp_path, "a", "b", "checkpoints", "tensorboard")
    ours.check()
    ours.claim()
    for name in ("a", "checkpoints/last-3.index", "checkpoints/best-1_temp/part"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("ours")
    mine = ("c", "checkpoints/notes.txt", "checkpoints/last.txt", "tensorboard/x")
    for name in mine:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    ours.check()
    with pytest.raises(ValueError, match="a is an input that `test` would replace"):
        ours.check([str(tmp_path / "a")])
    with pytest.raises(ValueError, match="would replace: c"):
        files(tmp_path, "a", "c").check()
    ours.remove()
    assert content(tmp_path).keys() == {*mine, ".written_by_test"}
    # What came meanwhile is not claimed.
    (tmp_path / "d").write_text("mine")
    with pytest.raises(ValueError, match="would replace: d"):
        files(tmp_path, "a", "d").claim()
    # Without its record, a directory is somebody else's.
    (tmp_path / ".written_by_test").unlink()
    (tmp_path / "a").write_text("ours")
    with pytest.raises(ValueError, match="would replace: a"):
        ours.check()


def test_links_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("mine.txt", "last-1.index"):
        (elsewhere / name).write_text(name)
    out = tmp_path / "out"
    ours = files(out, "a", "checkpoints")
    ours.claim()
    (out / "a").symlink_to(elsewhere / "mine.txt")
    (out / "checkpoints").symlink_to(elsewhere)
    ours.remove()
    assert os.listdir(elsewhere) == ["mine.txt"]  # The checkpoint was ours.
    assert not (out / "a").is_symlink() and (out / "checkpoints").is_symlink()


def test_without_locks_it_goes_on_and_says_so(tmp_path, monkeypatch, capsys):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with lock.alone(str(tmp_path), "training"):
        pass
    assert "cannot be locked (Operation not supported)" in capsys.readouterr().out
