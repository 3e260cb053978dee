"""The console command `tfr-ext`: what it says by itself, and that it is `python -m`."""

import os
import re
import runpy
import signal
import subprocess
import sys
from importlib import metadata
from unittest import mock

import pytest

from pipelines.start import console
from tests.commands import ROOT, run_command

COMMANDS = sorted(console.abouts())
HELP = ("-h", "-?", "-help", "--help", "--helpshort", "--helpfull")
# As the script that pip makes does.
SCRIPT = """
import sys
sys.argv[0] = "/somewhere/bin/tfr-ext"
from pipelines.start.console import main
sys.exit(main())
"""
NO_TENSORFLOW = "raise ImportError('TensorFlow was imported')\n"


def tfr_ext(*arguments, path):
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [path, ROOT]))},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def without_tensorflow(tmp_path_factory):
    """A folder that makes the import of TensorFlow fail."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "tensorflow.py").write_text(NO_TENSORFLOW)
    return folder


def test_the_commands_are_the_modules_that_run():
    with_main = {
        path.stem
        for path in (ROOT / "pipelines").glob("*.py")
        if '__name__ == "__main__"' in path.read_text()
    }
    assert {*COMMANDS} == with_main
    assert all(about.endswith(".") for about in console.abouts().values())


@pytest.mark.parametrize(
    ("arguments", "code", "where"),
    [((), 1, "stderr"), *(((asked,), 0, "stdout") for asked in ("help", *HELP))],
)
def test_the_commands_are_listed(arguments, code, where, without_tensorflow):
    done = tfr_ext(*arguments, path=without_tensorflow)
    assert done.returncode == code
    text = getattr(done, where)
    assert done.stdout + done.stderr == text
    for name, about in console.abouts().items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", text, re.M)


def test_the_version_is_told(without_tensorflow):
    version = runpy.run_path(str(ROOT / "tfr_ext" / "version.py"))["__version__"]
    done = tfr_ext("--version", path=without_tensorflow)
    assert (done.returncode, done.stdout) == (0, f"tfr-ext {version}\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["prepar"], "prepar is not a command; did you mean prepare? The commands "),
        (["zzz"], "zzz is not a command. The commands are "),
        (["--seed=1", "train"], "expected a command before --seed=1, as in tfr-ext "),
    ],
)
def test_what_is_no_command_is_told(arguments, text, without_tensorflow):
    done = tfr_ext(*arguments, path=without_tensorflow)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"Error: {text}")
    assert done.stderr.endswith(f"{', '.join(COMMANDS)}.\n")


def both(command, *arguments):
    """What `tfr-ext` and `python -m` say."""
    console = "tests.as_console"
    return (
        run_command(console, command, *arguments, check=False),
        run_command(f"pipelines.{command}", *arguments, check=False),
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_0(command, tmp_path):
    """However it is asked for, as shells and scripts take 1 for a failure."""
    file = tmp_path / "flags.cfg"
    file.write_text("--helpfull\n")
    said = {
        asked: run_command(f"pipelines.{command}", asked, check=False)
        for asked in (*HELP, f"--flagfile={file}", "--helpxml", "--help=true")
    }
    assert {asked: done.returncode for asked, done in said.items()} == {
        asked: 0 for asked in said
    }
    assert {done.stderr for done in said.values()} == {""}
    texts = {asked: done.stdout for asked, done in said.items()}
    assert {texts[asked] for asked in HELP[:-1]} == {texts["--help"]}
    assert "--logtostderr" not in texts["--help"]
    assert "--[no]logtostderr" in texts["--helpfull"]
    assert texts["--helpfull"] == texts[f"--flagfile={file}"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_is_that_of_the_module_but_for_its_name(command):
    console, module = both(command, "--help")
    assert console.returncode == module.returncode == 0
    assert console.stderr == module.stderr == ""
    assert f"tfr-ext {command} " in console.stdout
    assert "pipelines." not in console.stdout
    expected = re.sub(r"(?:python -m )?pipelines\.(\w+)", r"tfr-ext \1", module.stdout)
    assert console.stdout.split() == expected.split()


@pytest.mark.parametrize(
    "arguments",
    [["train", "x"], ["train", "--no_such=1"], ["compare", "a"]],
    ids=["argument", "flag", "work"],
)
def test_errors_and_their_codes_are_those_of_the_module(arguments):
    console, module = both(*arguments)
    assert console.returncode == module.returncode != 0
    names = re.compile(r"\S*pipelines\S*|tfr-ext \w+|python -m ")
    assert names.sub("", console.stdout) == names.sub("", module.stdout)
    assert names.sub("", console.stderr) == names.sub("", module.stderr)


def test_ctrl_c_while_modules_are_imported(tmp_path):
    """While the command works, it is `command.run` that minds Ctrl-C, as ever."""
    (tmp_path / "tensorflow.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "train"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate() == ("", "Stopped.\n")
    assert process.returncode == 130


def test_the_wheel_has_the_script():
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    (script,) = setup.call_args.kwargs["entry_points"]["console_scripts"]
    entry = metadata.EntryPoint(*script.split("="), "console_scripts")
    assert entry.name == "tfr-ext"
    assert entry.load().__module__ == "pipelines.start.console"
