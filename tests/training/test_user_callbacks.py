"""Callbacks of users: found by name, called after ours, part of the run."""

import os
import re
import sys
import types

import pytest
import tensorflow as tf

from tests.commands import ROOT, bad
from tests.commands import train as train_command
from tfr_ext.core import which_keras
from tfr_ext.runs import run_file
from tfr_ext.training import (
    DataConfig,
    LossConfig,
    ModelConfig,
    TrainingConfig,
    TrainingResult,
    train,
    user_callbacks,
)

OURS = """
import os
import tensorflow as tf

seen = []


class Log(tf.keras.callbacks.Callback):
    def __init__(self, directory="run"):
        super().__init__()
        self.directory = directory

    def on_epoch_end(self, epoch, logs=None):
        saved = any(
            name.startswith(f"last-{epoch + 1}")
            for name in os.listdir(f"{self.directory}/checkpoints")
        )
        seen.append((epoch, sorted(logs), saved))


class Stop(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = True


def log():
    return Log()


def nothing():
    return None


def fails():
    raise RuntimeError("no server")


class Wants(tf.keras.callbacks.Callback):
    def __init__(self, project):
        super().__init__()


class Plain:
    pass


number = 3
"""
LOGS = ["loss", "ndcg_10", "val_loss", "val_ndcg_10"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module in the working directory, of a name of its own."""
    monkeypatch.chdir(tmp_path)
    # As a console script starts, which knows nothing of the working directory.
    kept = [path for path in sys.path if path not in ("", os.getcwd())]
    monkeypatch.setattr(sys, "path", kept)
    name = f"mine_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OURS)
    yield name
    sys.modules.pop(name, None)


def run(*named, objects=(), num_epochs=3, **settings) -> TrainingResult:
    config = TrainingConfig(
        data=DataConfig(synthetic_num_queries=20, synthetic_list_size=5),
        model=ModelConfig(hidden_sizes=(4,), batch_normalization=False),
        loss=LossConfig("list_net_loss"),  # Its graph is built soon.
        num_epochs=num_epochs,
        model_dir="run",
        verbose="silent",
        draw_curves=False,
        export_model=False,
        callbacks=named,
        **settings,
    )
    return train(config, callbacks=objects)


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["all", "class", "function", "object"])
def test_they_are_called_with_the_logs_after_the_epoch_was_saved(mine, kind):
    named = {
        "class": [f"{mine}:Log"],
        "function": [f"{mine}:log"],
        "object": [],
        "all": [f"{mine}:Log", f"{mine}:log"],
    }[kind]
    user_callbacks.find(f"{mine}:Log")  # imports it
    module = sys.modules[mine]
    objects = [module.Log()] if kind in ("object", "all") else []
    found = run(*named, objects=objects)
    times = len(named) + len(objects)
    assert module.seen == [
        (epoch, LOGS, True) for epoch in range(3) for _ in range(times)
    ]
    assert len(found.history["loss"]) == 3


def test_one_may_stop_the_training(mine):
    assert len(run(f"{mine}:Stop").history["loss"]) == 1


def test_they_are_part_of_the_run(mine, monkeypatch):
    """Its flag file names them, and it goes on with the same ones only."""
    saved = tf.keras.callbacks.Callback.on_epoch_end

    class Interrupt(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(f"{mine}:Log", f"{mine}:log", objects=[Interrupt()])
    assert tf.keras.callbacks.Callback.on_epoch_end is saved
    text = open("run/flags.cfg").read()
    assert f"--callback={mine}:Log\n--callback={mine}:log\n" in text
    for others in ([], [f"{mine}:log"], [f"{mine}:log", f"{mine}:Log"]):
        with pytest.raises(ValueError) as error:
            run(*others)
        told = " ".join(f"`callbacks='{name}'`" for name in others) or "(not set)"
        then = f"`callbacks='{mine}:Log'` `callbacks='{mine}:log'`"
        assert f"\n  {then} then, {told} now\n" in str(error.value)
    seen = sys.modules[mine].seen
    del seen[:]
    result = run(f"{mine}:Log", f"{mine}:log")
    assert [epoch for epoch, *_ in seen] == [2, 2]
    assert len(result.history["loss"]) == 3
    del seen[:]
    run(f"{mine}:Log", f"{mine}:log")  # is finished
    assert seen == []


def test_the_flag_file_gives_the_settings(mine, tmp_path):
    from pipelines.experiments import cell_work

    for named in ((), ("a:B",), ("a:B", "a.b:c")):
        config = TrainingConfig(callbacks=named)
        path = tmp_path / "flags.cfg"
        path.write_text(run_file.of_training(config, "0" * 64))
        assert cell_work.parse([f"--flagfile={path}"]).settings == config
        more = [f"--flagfile={path}", "--callback=", "--callback=x:Y"]
        assert cell_work.parse(more).settings.callbacks == ("x:Y",)
        assert not run_file.differences(path.read_text(), config)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Log", "must have the form module:Class, or module:function of a function "
         "that returns a callback."),
        (":Log", "must have the form module:Class"),
        ("{mine}:", "must have the form module:Class"),
        ("{mine}:Log()", "must have the form module:Class"),
        ("{mine}/x.py:Log", "must have the form module:Class"),
        ("", "must have the form module:Class"),
        ("no_such_module:Log", ": there is no module 'no_such_module', neither in the "
         "working directory nor installed."),
        ("{mine}.inner:Log", ": there is no module '{mine}.inner', neither in the "
         "working directory nor installed."),
        ("{mine}:Absent", ": the module has no 'Absent'."),
        ("{mine}:number", "is 3, expected a class or a function."),
        ("{mine}:Plain", "gives an object of Plain, expected a callback of {keras}, "
         "which is `tf.keras.callbacks.Callback`."),
        ("broken:Log", "cannot be imported: NameError: name 'undefined' is not defined "
         "({here}/broken.py:2)"),
        ("imports:Log", "cannot be imported: ModuleNotFoundError: No module named "
         "'no_such_package' ({here}/imports.py:1)"),
        ("other:Other", "is a callback of {other}, but training uses {keras}. Take it "
         "from `tf.keras`."),
    ],
)  # fmt: skip
def test_a_name_that_is_wrong_is_told_before_anything_is_read(mine, tmp_path, name,
                                                             told):  # fmt: skip
    write_wrong_modules(tmp_path)
    names = {"mine": mine, "here": tmp_path, "keras": which_keras.name(),
             "other": which_keras.other_name()}  # fmt: skip
    name = name.format(**names)
    with pytest.raises(ValueError) as error:
        run(name, optimizer="adam", overwrite=True)
    message = str(error.value)
    assert message.startswith(f"`callbacks={name!r}`")
    assert told.format(**names) in message
    assert not os.path.exists("run/flags.cfg")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("{mine}:nothing", " gives an object of NoneType, expected a callback of"),
        ("{mine}:fails", " failed: RuntimeError: no server ({here}/{mine}.py:{line})"),
        ("{mine}:Wants", " failed: TypeError: "),
        ("other:make", " is a callback of {other}, but training uses {keras}."),
    ],
)
def test_what_makes_no_callback_is_told_before_training(mine, tmp_path, name, told):
    write_wrong_modules(tmp_path)
    names = {"mine": mine, "here": tmp_path, "keras": which_keras.name(),
             "other": which_keras.other_name()}  # fmt: skip
    names["line"] = OURS.split("raise RuntimeError")[0].count("\n") + 1
    with pytest.raises(ValueError) as error:
        run(name.format(**names))
    found = str(error.value)
    assert found.startswith(f"`callbacks='{name.format(**names)}'`")
    assert told.format(**names) in found
    assert not os.path.exists("run/flags.cfg")


def write_wrong_modules(directory):
    """Modules that fail, and one with callbacks of the other Keras."""
    other = ({"keras", "tf_keras"} - {which_keras._OWN}).pop()
    (directory / "broken.py").write_text("import os\nundefined\n")
    (directory / "imports.py").write_text("import no_such_package\n")
    (directory / "other.py").write_text(
        f"Callback = type('Callback', (), {{'__module__': '{other}.callbacks'}})\n"
        "class Other(Callback): pass\n"
        "def make(): return Other()\n"
    )
    for name in ("broken", "imports", "other"):
        sys.modules.pop(name, None)


def test_objects_that_are_no_callbacks_are_told(mine):
    with pytest.raises(ValueError, match=r"`callbacks\[1\]` gives an object of int"):
        run(objects=[tf.keras.callbacks.TerminateOnNaN(), 3])
    with pytest.raises(ValueError, match=r"`train\(config, callbacks=\[...\]\)`"):
        TrainingConfig(callbacks=[tf.keras.callbacks.TerminateOnNaN()])


def test_the_command_says_it_of_its_flag(tmp_path):
    assert "Error: --callback=nowhere:Log: there is no module 'nowhere'" in bad(
        tmp_path, "--flagfile=configs/quickstart.cfg", "--callback=nowhere:Log"
    )
    done = train_command(
        "--flagfile=configs/quickstart.cfg",
        *("--synthetic_num_queries=20", "--synthetic_list_size=5", "--num_epochs=1"),
        *("--callback=tests.training.told_callback:Told", "--noexport_model"),
        *("--loss=list_net_loss", "--nodraw_curves"),
        f"--model_dir={tmp_path}/run",
    )
    assert "Told of loss, ndcg_10, val_loss, val_ndcg_10" in done.stdout
    flags = (tmp_path / "run" / "flags.cfg").read_text()
    assert "--callback=tests.training.told_callback:Told\n" in flags


class Tracker(types.SimpleNamespace):
    """What of MLflow and of a run of Weights & Biases the docs use."""

    def __init__(self):
        super().__init__(calls=[])

    def __getattr__(self, name):
        def call(*args, **named):
            self.calls.append((name, args, named))
            return self

        return call


@pytest.mark.parametrize(
    ("function", "package", "begin", "log", "end"),
    [
        ("to_mlflow", "mlflow", ("start_run", (), {}), "log_metrics", "end_run"),
        ("to_wandb", "wandb", ("init", (), {"project": "ranking"}), "log", "finish"),
    ],
)
def test_the_trackers_of_the_docs_get_every_epoch(mine, tmp_path, monkeypatch,
                                                  function, package, begin, log,
                                                  end):  # fmt: skip
    """Their packages are not installed: this is of the mechanism."""
    guide = (ROOT / "docs" / "guide" / "training.md").read_text()
    (code,) = re.findall(r"```python\n(import tensorflow as tf\n.*?)```", guide, re.S)
    (tmp_path / "trackers.py").write_text(code)
    sys.modules.pop("trackers", None)
    tracker = Tracker()
    monkeypatch.setitem(sys.modules, package, tracker)
    history = run(f"trackers:{function}").history
    first, *epochs, last = tracker.calls
    assert first == begin and last == (end, (), {})
    assert [name for name, *_ in epochs] == [log] * 3
    for epoch, (_, (logs,), named) in enumerate(epochs):
        assert named == {"step": epoch}
        assert logs == {name: history[name][epoch] for name in LOGS}
