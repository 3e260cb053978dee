"""Runs `python -m MODULE FLAGS` without importing TensorFlow each time.

A process of its own imports what the commands need, runs nothing of it, and is forked
for every command: that finds what a fresh interpreter would have, some seconds sooner.
"""

import atexit
import functools
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).parents[1]


def run(
    module,
    flags,
    directory=ROOT,
    stdin=os.devnull,
    environment=(),
    user=None,
    unread=False,
):
    """Runs a command.

    Args:
        module: such as 'pipelines.train'.
        flags: its arguments.
        directory: where it runs, by default the root of the repository.
        stdin: the file that is its standard input.
        environment: what is added to the environment, of this process and of those
            that it starts. LD_PRELOAD has its effect too.
        user: the number of the user and the group that it runs as, if another.
        unread: whether its standard output is a pipe that nobody reads.

    Returns:
        What `subprocess.run` returns, with the outputs as text.
    """
    environment = {**os.environ, **dict(environment)}
    server = _server(environment.get("LD_PRELOAD", ""))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        files = [str(stdin), *outputs]
        order = [module, flags, environment, str(directory), files, user, unread]
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        texts = [pathlib.Path(path).read_text() for path in outputs]
    return subprocess.CompletedProcess([module, *flags], code, *texts)


@functools.cache
def _server(preload):
    server = subprocess.Popen(
        [sys.executable, "-m", __name__],
        env={**os.environ, "LD_PRELOAD": preload},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    atexit.register(server.kill)
    return server


def _serve():
    import matplotlib.pyplot  # noqa: F401
    import scipy.stats  # noqa: F401

    import tfr_ext.scoring.evaluator
    import tfr_ext.training.trainer  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _work(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _work(module, flags, environment, directory, files, user, unread):
    """Becomes the command, and ends with it."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.stdin.close()
    os.dup2(os.open(files[0], os.O_RDONLY), 0)
    for descriptor, path in enumerate(files[1:], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    if unread:
        reading, writing = os.pipe()
        os.dup2(writing, 1)
        os.close(reading)
        os.close(writing)
    if user is not None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    sys.argv = [module, *flags]
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = 1 if isinstance(end.code, str) else end.code or 0
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
