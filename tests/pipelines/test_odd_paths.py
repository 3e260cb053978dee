"""Every command works below any path, or says which flag names one that cannot work."""

import numpy as np
import pytest
import tensorflow as tf

from tests.commands import PATHS, run_command, told
from tests.files import write_letor
from tfr_ext.core import files
from tfr_ext.data.synthetic import synthetic_lists
from tfr_ext.training import checkpoints

# What globs, lists, flag files and shells take for something else.
LETTERS = [*"[]*?\\ {}~$%=,:;#'\"`!&|<>()@^\t", "\u00e9", "\u00a0", "\u2028", "[a-z]"]
# Without what stands for other names in a pattern, for which detours are made.
NO_PATTERN = "a ~$%20=,;:#'\"`!&|<>()@^\t\u00e9\u00a0\u2028z"
AT_ONCE = "-run[1] a\\b*?{x|y}~$%20=,;:#'\"`!&<>()@^\t\u00e9\u00a0\u2028z"
TINY = (
    *(
        "--model=mlp",
        "--hidden_sizes=2",
        "--num_epochs=1",
        "--verbose=silent",
        "--nodraw_curves",
    ),
    *("--gain=linear", "--metrics=ndcg_10,map", "--loss=list_net_loss"),
)


def work(folder, name):
    """Runs the commands, each on what those before it wrote."""
    text, scores = folder / f"{name}.txt", folder / f"{name} scores.txt"
    lists = synthetic_lists(
        num_lists=12, list_size=4, num_document_features=2, num_query_features=1
    )
    write_letor(text, lists)
    np.savetxt(scores, np.arange(lists.num_items))
    data = ("--dataset=text", f"--train_path={text}")
    test = ("--dataset=text", f"--test_path={text}")
    shards = ("--dataset=elwc", f"--data_dir={folder}/shards")
    export = f"--export={folder}/model/export"
    run_command("pipelines.prepare", *data, f"--output_dir={folder}/shards")
    run_command("pipelines.train", *TINY, *shards, f"--model_dir={folder}/model")
    # The run goes on after its last epoch, as if it had been killed there.
    (folder / "model" / "metrics.json").unlink()
    for line in ("", "is finished: there is nothing to do"):
        done = run_command(
            "pipelines.train", *TINY, *shards, f"--model_dir={folder}/model"
        )
        assert line in done.stdout
    run_command("pipelines.export", f"--model_dir={folder}/model")
    assert (folder / "model" / "export" / "3").is_dir()
    again = (f"--flagfile={folder}/trees/flags.cfg", f"--model_dir={folder}/again")
    run_command(
        *("pipelines.train_gbm", *data, "--num_trees=2", "--nodraw_curves"),
        f"--model_dir={folder}/trees",
    )
    run_command("pipelines.train_gbm", *again)
    run_command(
        *("pipelines.evaluate", *test, export, f"--output_dir={folder}/evaluated")
    )
    run_command("pipelines.rank", export, f"--input={text}", f"--output={folder}/x.run")
    run_command(
        *("pipelines.evaluate", *test, f"--run={folder}/x.run"),
        *(f"--rerank_run={folder}/x.run", "--rerank_depth=3"),
    )
    run_command(
        *("pipelines.evaluate", *test, f"--scores={scores}"),
        f"--output_dir={folder}/scored",
    )
    runs = (f"{folder}/evaluated", f"{folder}/scored")
    run_command("pipelines.compare", *runs, f"--output_dir={folder}/compared")
    run_command("pipelines.fuse", *runs, f"--output_dir={folder}/fused")
    again = (f"--flagfile={folder}/fused/flags.cfg", f"--output_dir={folder}/refused")
    run_command("pipelines.fuse", *again)
    run_command(
        *("pipelines.experiment", *data, "--folds=1", "--seeds=1", "--num_trees=2"),
        *("--method=A: train_gbm", f"--output_dir={folder}/experiment"),
    )
    return {path.name for path in folder.iterdir()}


WRITTEN = {"model", "trees", "again", "evaluated", "scored", "x.run", "compared"}
WRITTEN |= {"fused", "refused", "experiment", "shards"}


@pytest.mark.parametrize(
    "name", [AT_ONCE, pytest.param(NO_PATTERN, marks=pytest.mark.grid)]
)
def test_all_commands_work_below_any_path(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    assert work(folder, name) >= WRITTEN
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("temporary", ["plain", "123[4]"])
def test_variables_are_read_below_any_path(temporary, tmp_path, monkeypatch):
    (tmp_path / temporary).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))
    monkeypatch.chdir(tmp_path)
    written = tf.train.Checkpoint(v=tf.Variable(3.0))
    for folder in [*(f"a{letter}1" for letter in LETTERS), AT_ONCE]:
        read = tf.Variable(0.0)
        written.write(f"{folder}/last-1")
        checkpoints._read(tf.train.Checkpoint(v=read), f"{folder}/last-1", whole=True)
        assert read.numpy() == 3, folder
    tf.saved_model.save(written, f"{AT_ONCE}/export")
    with files.without_wildcards(f"{AT_ONCE}/export") as plain:
        assert tf.saved_model.load(plain).v.numpy() == 3
    assert not list((tmp_path / temporary).iterdir())
    with files.without_wildcards("gs://bucket[1]/run") as plain:
        assert plain == "gs://bucket[1]/run"


@pytest.mark.parametrize(
    ("command", "path"),
    [
        *((command, "a\nb") for command in PATHS),
        *(("fuse", path) for path in ("a\rb", "a\u00a0", "a\udcff")),
    ],
)
def test_paths_that_cannot_work_are_refused(command, path, tmp_path):
    """All flags of a command at once: each is named."""
    (tmp_path / path).touch()
    names = [name for name in PATHS[command] if name != "flagfile"]
    flags = [f"--{name}={tmp_path}/{path}" for name in names]
    message = told(run_command(f"pipelines.{command}", *flags, check=False))
    for name in names:
        assert f"flag --{name}=" in message, name
    assert "of one line in UTF-8, without blanks around it" in message
    assert [one.name for one in tmp_path.iterdir()] == [path]
