"""What the start of a command writes to the standard error, in a process of its own."""

import io
import os
import subprocess
import sys
import types

import pytest

from tests.commands import ROOT
from tfr_ext.training import trainer

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
HEADER = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to "
    "STDERR\n"
)
INFORMATION = "I0000 00:00:1795335409.501105    6406 port.cc:153] oneDNN is on.\n"
WARNING = "W0000 00:00:1795335409.501589    6406 cudart_stub.cc:31] No GPU.\n"
ERROR = "E0000 00:00:1795335409.501589    6406 cuda_fft.cu.cc:467] Registered before.\n"
FATAL = "F0000 00:00:1795335409.501589    6406 cpu_guard.cc:31] No AVX.\n"
NOISE = HEADER + INFORMATION + WARNING + ERROR
OF_PYTHON = "W1122 08:21:06.001955 139790964456320 callbacks.py:376] Is slow.\n"


def run(*arguments, level=None, **kwargs):
    """Runs Python as a user does, who has set no variable, or that of the level."""
    environment = {**os.environ, VARIABLE: level}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={name: value for name, value in environment.items() if value is not None},
        **kwargs,
    )


def start(code, level=None, before="pass", after="pass"):
    """Runs code in place of TensorFlow's import, and writes a message after it."""
    return run(
        "-c",
        "import importlib, os, runpy, sys\n"
        "def c(text): os.write(2, text.encode())\n"
        "def imported(name):\n"
        "    sys.modules['tensorflow'] = os\n"
        f"    {code}\n"
        "importlib.import_module = imported\n"
        f"{before}\n"
        "runpy.run_path('pipelines/start/tensorflow_import.py')\n"
        f"{after}\n"
        f"c({INFORMATION!r})",
        level=level,
    )


def test_a_command_writes_its_own_words_only(tmp_path):
    """One for all: the others are run by tests/readme.py, as each is in the README."""
    done = run("-m", "pipelines.train", "--dataset=text", f"--model_dir={tmp_path}/run")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (None, ""),
        ("3", ""),
        ("9", ""),
        ("2", ERROR),
        ("1", WARNING + ERROR),
        ("0", NOISE),
        ("", NOISE),
    ],
)
def test_the_level_of_the_user_holds(level, shown):
    done = start(f"c({NOISE + 'Own words.'!r}); c({OF_PYTHON + FATAL!r})", level)
    assert done.stderr == f"{shown}Own words.{OF_PYTHON}{FATAL}{INFORMATION}"


def test_a_crash_and_an_error_show():
    done = start(f"c({INFORMATION + FATAL!r}); os.abort()")
    assert done.returncode < 0 and done.stderr == FATAL
    done = start(f"c({INFORMATION!r}); print('a word', end='', file=sys.stderr); 1 / 0")
    assert done.stderr.startswith("a wordTraceback")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_what_outlives_the_start_is_not_waited_for():
    code = "import subprocess; sys.sleeper = subprocess.Popen(['sleep', '60'])"
    done = start(code, after="sys.sleeper.kill()")
    assert done.stderr == INFORMATION


def test_a_command_may_be_started_by_one_that_ignores_its_children():
    before = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    done = start("pass", before=before)
    assert (done.returncode, done.stderr) == (0, INFORMATION)


@pytest.mark.parametrize(
    ("verbose", "terminal", "number"),
    [("bar", True, 1), ("bar", False, 2), ("line", True, 2), ("silent", False, 0)],
)
def test_a_bar_is_for_a_terminal(monkeypatch, verbose, terminal, number):
    with monkeypatch.context() as patch:
        stdout = types.SimpleNamespace(isatty=lambda: terminal)
        patch.setattr(sys, "stdout", stdout)
        found = trainer.keras_verbosity(verbose)
    assert found == number


def test_a_bar_is_for_a_notebook(monkeypatch):
    for shell, number in ((None, 2), (types.SimpleNamespace(kernel=1), 1)):
        found = types.SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", found)
        assert trainer.keras_verbosity("bar") == number


def test_no_bar_without_a_usual_standard_output(monkeypatch):
    closed = io.StringIO()
    closed.close()
    for stdout in (None, types.SimpleNamespace(write=print), closed):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            found = trainer.keras_verbosity("bar")
        assert found == 2


def test_without_a_standard_error():
    done = start("print(1)", before="os.close(2); sys.stderr = None; c = print")
    assert done.stdout == f"1\n{INFORMATION}\n"
