"""The guide to serving, from its training to its requests, with a server for it."""

import json
import shutil

import pytest

from tests import fork_server
from tests.docs import commands, given, pages
from tests.serving.model_server import serving

pytestmark = pytest.mark.any_keras

(PAGE,) = given.SERVED


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with what the page trains, and the addresses that it asks."""
    directory = tmp_path_factory.mktemp("guide")
    given.write_files(PAGE, directory)
    (directory / "three.txt").write_text("qid:1 1:0.1 2:0.5 3:2\nqid:1 1:0.3 3:1\n")
    training = [line for line, _ in shell_lines() if line.startswith("tfr-ext train")]
    assert len(training) == 1
    assert not commands.run(PAGE, training[0], directory)
    labels = {"stable": 1, "canary": 1}
    with serving(directory / "models/quickstart/export", labels=labels) as running:
        yield (
            directory,
            {"localhost:8501": running.rest, "localhost:8500": running.grpc},
        )


def shell_lines():
    """The lines of the shell blocks that run, each with the block that follows."""
    blocks = pages.blocks(PAGE)
    return [
        (line, after)
        for block, after in zip(blocks, [*blocks[1:], None])
        if block.language == "sh" and not block.not_run
        for line in commands.lines(block.text)
    ]


def alike(found, shown):
    """Whether two JSON values have the same keys and sizes, and the same texts."""
    if isinstance(shown, dict):
        return {*found} == {*shown} and all(alike(found[k], shown[k]) for k in shown)
    if isinstance(shown, list):
        return len(found) == len(shown) and all(map(alike, found, shown))
    return found == shown if isinstance(shown, str) else type(found) is type(shown)


def test_shell_blocks(place):
    pytest.importorskip("tensorflow_serving")
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    directory, addresses = place
    answers = 0
    for line, after in shell_lines():
        if line.startswith("tfr-ext train"):
            continue
        for old, new in addresses.items():
            line = line.replace(old, new)
        assert not commands.run(PAGE, line, directory), line
        if line.startswith("curl"):
            assert after.language == "json"
            found = json.loads((directory / "piped").read_text())
            assert alike(found, json.loads(after.text)), (found, after.text)
            answers += 1
    assert answers == 3
    (ranked,) = (directory / "three.jsonl").read_text().splitlines()
    assert len(json.loads(ranked)["items"]) == 2


def test_python_blocks(place):
    pytest.importorskip("tensorflow_serving")
    directory, addresses = place
    pairs = [f"{old}={new}" for old, new in addresses.items()]
    done = fork_server.run("tests.docs.run_python", [PAGE, *pairs], directory)
    assert done.returncode == 0, done.stderr[-3000:]
    about, scores, in_base64, *_ = done.stdout.splitlines()
    assert about == "3 None"
    version, *numbers = scores.replace("[", "").replace("]", "").split()
    assert version == "1" and len(numbers) == 3
    (row,) = json.loads(in_base64)
    assert row == pytest.approx([float(x) for x in numbers], rel=1e-5)


def test_what_is_shown_must_fit():
    shown = {"outputs": [[0.5, 1.5]]}
    assert alike({"outputs": [[2.5, -1.0]]}, shown)
    for wrong in ({"error": "x"}, {"outputs": [[0.5]]}, {"outputs": [["a", "b"]]}):
        assert not alike(wrong, shown)
