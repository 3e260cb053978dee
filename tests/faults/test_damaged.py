"""Shards that are damaged: a command names the file, and goes on when it is whole."""

import functools
import gzip
import shutil

import pytest

from tests import layouts
from tests.commands import run_command, told
from tests.files import content, write_text

_TRAIN = (
    "pipelines.train",
    "--model=mlp",
    "--hidden_sizes=4",
    "--num_epochs=2",
    "--batch_size=4",
)
_TRAIN += ("--loss=list_net_loss",)
_PREPARE = ("pipelines.prepare", "--shard_megabytes=0.01", "--output_dir={out}")
COMMANDS = {
    "prepare": (*_PREPARE, "--num_workers=1"),
    "workers": (*_PREPARE, "--num_workers=2"),
    "train": (*_TRAIN, "--verbose=line", "--model_dir={out}"),
    "stream": (*_TRAIN, "--verbose=line", "--model_dir={out}", "--stream"),
}
# What is read, and what reads it: files of ELWC, without and with a manifest, and a
# data set of TensorFlow Datasets.
CASES = [
    *(
        (source, command)
        for source in ("plain", "gzip", "made")
        for command in COMMANDS
    ),
    *(("tfds", command) for command in ("prepare", "train")),
]


def cut(data):
    return data[: len(data) * 2 // 3]


def emptied(data):
    return b""


def with_a_bit_flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Returns the flags of a source, and the shard of it that is damaged."""
    folder = tmp_path_factory.mktemp("sources")
    made = {
        "plain": functools.partial(_elwc, folder / "plain"),
        "gzip": functools.partial(_elwc, folder / "gzip", gzip.compress),
        "made": functools.partial(_made, folder / "made"),
        "tfds": functools.partial(_tfds, folder / "tfds"),
    }
    return functools.cache(lambda name: made[name]())


def _made(folder):
    text = write_text(folder.with_suffix(".txt"), seed=1, queries=60)
    run_command(
        *("pipelines.prepare", "--dataset=text", f"--train_path={text}"),
        *("--shard_megabytes=0.01", f"--output_dir={folder}"),
    )
    flags = ("--dataset=elwc", f"--data_dir={folder}")
    return flags, sorted(folder.glob("train-*.tfrecord"))[1]


def _elwc(folder, change=bytes):
    _, shard = _made(folder)
    for path in folder.iterdir():
        if path.suffix == ".tfrecord":
            path.write_bytes(change(path.read_bytes()))
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    splits = ("train", "valid", "test")
    paths = (f"--{x}_path={folder}/{x}-*.tfrecord" for x in splits)
    return ("--dataset=elwc", *paths), shard


def _tfds(folder):
    layouts.write_fold(folder / "files" / "MQ2008" / "Fold1", 46)
    places = (f"--manual_dir={folder}/files", f"--data_dir={folder}/data")
    flags = ("--dataset=letor4/mq2008_fold1", *places)
    run_command("pipelines.prepare", *flags, f"--output_dir={folder}/out")
    return flags, *(folder / "data").rglob("*-train.tfrecord*")


@pytest.fixture(scope="module")
def undamaged(source, tmp_path_factory):
    """Returns what a command leaves of a source that is whole."""

    def run(name, command):
        out = tmp_path_factory.mktemp("undamaged") / "out"
        run_command(
            *(flag.format(out=out) for flag in COMMANDS[command]), *source(name)[0]
        )
        return results(out)

    return functools.cache(run)


def results(out):
    """The names of all files, and what is in those of lists and scores."""
    return {
        name: data if name.endswith((".trec", ".tfrecord", ".tsv")) else None
        for name, data in content(out).items()
        if "tfevents" not in name
    }


@pytest.mark.first_case
@pytest.mark.parametrize("damage", [cut, with_a_bit_flipped, emptied])
@pytest.mark.parametrize(("name", "command"), CASES)
def test_a_damaged_shard(name, command, damage, source, undamaged, tmp_path):
    expected = undamaged(name, command)
    given, shard = source(name)
    out = tmp_path / "out"
    flags = [*(flag.format(out=out) for flag in COMMANDS[command]), *given]
    whole = shard.read_bytes()
    shard.write_bytes(damage(whole))
    try:
        done = run_command(*flags, check=False)
    finally:
        shard.write_bytes(whole)
    (line,) = told(done).splitlines()
    # TensorFlow Datasets names the split and its directory.
    named = shard.parent if name == "tfds" else shard.name
    assert line.startswith("Error: ") and str(named) in line, line
    if name == "plain" and damage is not emptied:
        assert f"{shard}: record " in line, line
    left = {path.name for path in out.rglob("*")}
    assert not left & {"manifest.json", "metrics.json", "run.trec", "export"}
    assert not [x for x in left if "writing" in x]
    run_command(*flags)
    assert results(out) == expected
