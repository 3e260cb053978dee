"""Training and evaluating on ELWC files, as a user does."""

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.commands import ROOT, run_command, train
from tests.elwc_files import write_manifest, write_shards
from tests.files import write_letor
from tests.helpers import make_lists
from tfr_ext import data
from tfr_ext.data.elwc import shards

pytestmark = pytest.mark.stack_b

FLAGS = (
    "--flagfile=configs/quickstart.cfg",
    "--model=mlp",
    "--hidden_sizes=8",
    "--batch_size=8",
    "--num_epochs=3",
    "--dropout=0.2",
    "--verbose=line",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same lists as text and as shards with a manifest."""
    directory = tmp_path_factory.mktemp("files")
    splits = {}
    for seed, (split, count) in enumerate((("train", 3), ("valid", 1), ("test", 1))):
        lists = make_lists([5, 9, 2, 7] * 12, num_features=4, seed=seed)
        write_letor(directory / f"{split}.txt", lists)
        # As the text says them, in the order of the shards, which the text then has.
        lists = data.read_letor(directory / f"{split}.txt")
        order = [q for k in range(count) for q in range(k, lists.num_lists, count)]
        write_letor(directory / f"{split}.txt", lists.select(order))
        splits[split] = write_shards(directory, split, lists, count)
    write_manifest(directory, 4, splits)
    return directory


def paths(directory, pattern):
    return [
        f"--{split}_path={directory}/{pattern.format(split)}"
        for split in ("train", "valid", "test")
    ]


def metrics(directory):
    return json.loads((directory / "metrics.json").read_text())


def refused(*flags, module="pipelines.train"):
    done = run_command(module, *flags, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "Epoch" not in done.stdout
    return done.stderr


@pytest.mark.two_graphs
@pytest.mark.grid
def test_elwc_trains_as_text_does(files, tmp_path):
    text, elwc = tmp_path / "text", tmp_path / "elwc"
    train(*FLAGS, "--dataset=text", *paths(files, "{}.txt"), f"--model_dir={text}")
    data_dir = ["--dataset=elwc", f"--data_dir={files}"]
    done = train(*FLAGS, *data_dir, f"--model_dir={elwc}")
    assert metrics(elwc) == metrics(text)
    assert "no manifest" not in done.stdout
    export = f"--export={elwc}/export"
    done = run_command(
        "pipelines.evaluate", export, *data_dir, f"--output_dir={tmp_path}/out"
    )
    assert metrics(tmp_path / "out")["test"] == pytest.approx(metrics(elwc)["test"])
    lists = make_lists([3, 3], num_features=5)
    write_manifest(tmp_path, 5, {"test": write_shards(tmp_path, "test", lists, 1)})
    told = refused(
        "--dataset=elwc",
        f"--data_dir={tmp_path}",
        export,
        module="pipelines.evaluate",
    )
    assert "manifest.json: expected 4 features. Found: num_features 5" in told


def start(*flags):
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "pipelines.train", *flags],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.grid
def test_an_interrupted_stream_ends_as_an_undisturbed_one(files, tmp_path):
    flags = [*FLAGS, "--dataset=elwc", f"--data_dir={files}", "--stream"]
    flags += ["--num_epochs=6", "--list_size=6", "--label_sampling=epoch"]
    done = train(*flags, f"--model_dir={tmp_path}/whole")
    assert "--list_size=6 cut 24 of 48 training lists to a random choice" in done.stdout
    flags.append(f"--model_dir={tmp_path}/killed")
    process = start(*flags)
    for line in process.stdout:
        if re.match(r"Epoch [3-6]/", line):
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    assert not (tmp_path / "killed" / "metrics.json").exists()
    done = train(*flags)
    assert "Going on after epoch" in done.stdout
    for name in ("metrics.json", "run.trec"):
        whole = (tmp_path / "whole" / name).read_text()
        assert (tmp_path / "killed" / name).read_text() == whole


def test_a_damaged_shard_is_told_before_training(files, tmp_path):
    """With a manifest, and, in a stream, without one."""
    directory = tmp_path / "copy"
    shutil.copytree(files, directory)
    shard = directory / "train-00002-of-00003.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-5])
    flags = [*FLAGS, "--dataset=elwc", f"--model_dir={tmp_path}/model"]
    told = refused(*flags, f"--data_dir={directory}")
    assert f"{directory}/manifest.json: shard {shard.name}: expected" in told
    (directory / "manifest.json").unlink()
    told = refused(*flags, *paths(directory, "{}-*.tfrecord"), "--stream")
    assert f"{shard}: record 16: expected a whole TFRecord" in told
    assert not (tmp_path / "model").exists()


# What the manifest tells, without a process each.


def shard_of(directory, k):
    return directory / f"train-{k:05d}-of-00003.tfrecord"


def check(directory):
    found = shards.manifest.load(str(directory))
    return shards.CheckedShards(shards.split_files(str(directory), found, "train"))


@pytest.fixture
def copy(files, tmp_path):
    return shutil.copytree(files, tmp_path / "copy")


def test_whole_shards_pass(copy):
    found = check(copy)
    assert [len(found.files), len(found.manifests)] == [3, 1]
    lists = [data.read_elwc(file) for file in found.files]
    found.add(found.files[0], lists[0])
    with pytest.raises(data.DataFormatError, match="expected queries 16. Found: 0"):
        found.finish()
    for file, more in zip(found.files[1:], lists[1:]):
        found.add(file, more)
    found.finish()
    found.add(found.files[2], lists[2].select([0]))
    with pytest.raises(data.DataFormatError, match="expected queries 16. Found: 17"):
        found.finish()


def change(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda d: shard_of(d, 1).unlink(), "00001-of-00003.tfrecord: it is missing"),
        (
            lambda d: shutil.copy(shard_of(d, 1), d / "train-00003-of-00004.tfrecord"),
            "expected one of its 5 shards. Found: train-00003-of-00004.tfrecord",
        ),
        (lambda d: change(shard_of(d, 2)), "00002-of-00003.tfrecord: expected the SHA"),
        (
            lambda d: shutil.copy(shard_of(d, 1), shard_of(d, 0)),
            r"00000-of-00003.tfrecord: expected (\d+ bytes|the SHA)",
        ),
    ],
)
def test_what_the_manifest_does_not_say(copy, damage, told):
    damage(copy)
    with pytest.raises(data.DataFormatError, match=told) as error:
        check(copy)
    assert error.value.path == f"{copy}/manifest.json"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c["splits"].pop("valid"), "expected an entry for 'valid'"),
        (
            lambda c: c["splits"].update(vali=c["splits"].pop("valid")),
            "expected splits called train, valid, test. Found: 'vali'",
        ),
        (
            lambda c: c.update(num_grades=3),
            "shard train-00000-of-00003.tfrecord: expected num_grades 3. Found: None",
        ),
    ],
)
def test_a_manifest_of_other_splits_or_grades(copy, tmp_path, change, told):
    path = copy / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    done = train(
        *FLAGS,
        "--dataset=elwc",
        f"--data_dir={copy}",
        f"--model_dir={tmp_path}/model",
        check=False,
    )
    assert done.returncode == 1 and "Epoch" not in done.stdout
    assert f"manifest.json: {told}" in done.stderr


def test_a_shard_left_out_by_the_user(copy):
    files = [str(shard_of(copy, k)) for k in (0, 2)]
    with pytest.raises(data.DataFormatError, match="all 3 shards.*is not named"):
        shards.CheckedShards(files)
    (copy / "manifest.json").unlink()
    assert shards.CheckedShards(files).manifests == {}


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--dataset=elwc"], "--dataset=elwc needs --train_path"),
        (["--dataset=elwc", "--data_dir={}"], "has no manifest.json"),
        (
            ["--dataset=elwc", "--data_dir={}", "--test_path=x"],
            "Give --data_dir or --test_path",
        ),
        (
            ["--stream"],
            "--stream needs --dataset=elwc, which can be read again and again.",
        ),
        (
            ["--stream", "--dataset=elwc", "--train_path=x"],
            "--stream cannot hold out queries of the training files: give --valid_path",
        ),
        (["--dataset=elwc", "--elwc_features=label"], "'label' has two uses"),
    ],
)
def test_wrong_flags(tmp_path, flags, told):
    flags = [flag.format(tmp_path) for flag in flags]
    assert told in refused(*flags, f"--model_dir={tmp_path}/model")
