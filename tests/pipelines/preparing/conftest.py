"""The command that prepares shards, run in this process."""

from __future__ import annotations

import pytest
from absl import flags
from absl.testing import flagsaver

from pipelines import prepare
from pipelines.flags import config_flags

FLAGS = flags.FLAGS


@pytest.fixture(scope="module", autouse=True)
def _flags():
    """The command's flags, in this process."""
    prepare.define_flags()
    yield
    by_module = FLAGS.flags_by_module_dict()
    for flag in list(by_module[config_flags.__name__]):
        delattr(FLAGS, flag.name)


@pytest.fixture
def run(capsys):
    """Returns a function that runs the command here, and returns what it prints."""

    def run_here(*args, work=prepare.main):
        capsys.readouterr()
        with flagsaver.flagsaver():
            # A process more takes seconds, and its prints are not seen here.
            with_beam = any("--beam_args" in str(argument) for argument in args)
            alone = [] if with_beam else ["--num_workers=1"]
            FLAGS(["prepare", *alone, *map(str, args)])
            work()
        return capsys.readouterr().out

    return run_here
