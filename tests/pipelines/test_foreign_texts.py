"""Texts of others, which harm neither a terminal nor a page; and readers that stop."""

import contextlib
import json
import os
import re
import signal

import numpy as np
import pytest

from pipelines.comparing import tables
from pipelines.start import console, failures
from tests.commands import run_command
from tests.files import write_run
from tests.serving.liars import GrpcLiar, RestLiar, packed
from tfr_ext.core import messages
from tfr_ext.evaluation.comparison import Options, compare

# An escape sequence, one in a single character, an override and a line's beginning.
HOSTILE = "\x1b]0;own\x07\x9b2J\u202e\u2066\r\x08\x7fA"
SHOWN = r"\x1b]0;own\x07\x9b2J\u202e\u2066\r\x08\x7fA"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
JUDGED = "".join(
    f"{label} qid:{query} 1:{label}.5 2:1 #docid = D{label}\n"
    for query in (1, 2)
    for label in (2, 0, 1)
)


def assert_harmless(*texts):
    for text in texts:
        found = CONTROL.search(text)
        assert not found, (found, text[max(0, found.start() - 200) :][:400])


@pytest.fixture
def judged(tmp_path):
    """A file of two queries, and flags that evaluate scores of it."""
    (tmp_path / "judged.txt").write_text(JUDGED)
    (tmp_path / "scores").write_text("3\n1\n2\n" * 2)
    return [
        *("--dataset=text", f"--test_path={tmp_path}/judged.txt", "--metrics=ndcg_10"),
        *(f"--scores={tmp_path}/scores", "--num_features=2"),
    ]


def hostile_runs(folder):
    """Two runs, of which one has a name, a convention and queries that are hostile."""
    rng = np.random.default_rng(0)
    queries = [f"q{i}\x1b[31m" for i in range(9)]
    convention = {"gain": HOSTILE, "log": "x" * 100_000}
    return {
        name: [
            write_run(folder / str(k), {"ndcg_10": rng.random(9)}, queries, convention)
        ]
        for k, name in enumerate((HOSTILE, "b"))
    }


def test_a_text_is_shown_as_it_is_but_for_control_characters():
    assert messages.visible(HOSTILE) == SHOWN
    harmless = "\ta\n \xa0\u200d\u200c\xe9\u05d0\U0001f600\\x1b"
    assert messages.visible(harmless) == harmless
    assert messages.visible("\ud800") == r"\ud800"
    assert messages.visible("x" * 9, 9) == "x" * 9
    assert messages.visible("ab" * 5000, 20).startswith("ababababab [... 9,980 char")


def test_compare_shows_names_and_conventions_of_others(tmp_path):
    given = [f"{k}={','.join(v)}" for k, v in hostile_runs(tmp_path).items()]
    done = run_command(
        "pipelines.compare",
        *(*given, f"--against={HOSTILE}", f"--title=T{HOSTILE}"),
        f"--output_dir={tmp_path}/out",
    )
    assert done.stdout.startswith("  ") and SHOWN in done.stdout
    files = {p.name: p.read_text() for p in (tmp_path / "out").iterdir()}
    assert_harmless(done.stdout, done.stderr, *files.values())
    assert SHOWN in files["comparison.html"]
    assert json.loads(files["comparison.json"])["runs"][0]["name"] == SHOWN
    sizes = [len(done.stdout), *(len(files[x]) for x in ("table.md", "table.tex"))]
    assert max(sizes) < 9000, sizes
    twice = [given[0], f"{SHOWN}={given[1].partition('=')[2]}"]
    done = run_command("pipelines.compare", *twice, check=False)
    assert "Two runs are called" in done.stderr


def test_a_long_name_is_cut(tmp_path):
    runs = hostile_runs(tmp_path)
    given = [f"{'n' * 50_000}={runs[HOSTILE][0]}", f"b={runs['b'][0]}"]
    done = run_command("pipelines.compare", *given, f"--output_dir={tmp_path}/out")
    assert "nnn [... 49,800 characters ...] nnn" in done.stdout
    assert len(done.stdout) < 5000


def test_tables_of_the_library_show_names_of_others(tmp_path):
    compared = compare(hostile_runs(tmp_path), Options())
    assert_harmless(tables.terminal(compared, bold=False), tables.latex(compared))
    bold = tables.terminal(compared, bold=True)
    assert_harmless(bold.replace("\x1b[1m", "").replace("\x1b[0m", ""))
    assert "\x1b[1m" in bold


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("evaluate", [f"--run=/nowhere/{HOSTILE}"]),
        ("evaluate", [f"--test_path=/nowhere/{HOSTILE}"]),
        ("evaluate", [f"--no_{HOSTILE}=1"]),
        ("evaluate", [f"--metrics={HOSTILE}"]),
        ("evaluate", [HOSTILE]),
        ("evaluate", [f"--flagfile=/nowhere/{HOSTILE}"]),
        ("compare", [f"/nowhere/{HOSTILE}", "b"]),
        ("fuse", [f"/nowhere/{HOSTILE}", "b"]),
        ("experiment", ["--output_dir=/nowhere", f"--method={HOSTILE}"]),
        (
            "rank",
            [f"--server={HOSTILE}", "--model_name=a", "--input=a", "--output=b.csv"],
        ),
    ],
    ids=lambda x: repr(x)[:30],
)
def test_an_error_of_a_command_shows_texts_of_others(command, arguments, judged):
    given = [*judged, *arguments] if command == "evaluate" else arguments
    done = run_command(f"pipelines.{command}", *given, check=False)
    assert done.returncode == 1 and r"\x1b" in done.stderr
    assert "Traceback" not in done.stderr
    assert_harmless(done.stdout, done.stderr)


def test_evaluate_prints_names_of_others(judged, tmp_path):
    text = "".join(
        f"q\x1b[31m\u202e{q},{y},{x}\n" for q in (1, 2) for y, x in ((1, 2), (0, 1))
    )
    (tmp_path / "t.csv").write_text(f"query,label,x\n{text}")
    (tmp_path / "scores").write_text("3\n1\n" * 2)
    done = run_command(
        "pipelines.evaluate",
        *("--dataset=table", f"--test_path={tmp_path}/t.csv", "--query_column=query"),
        *(f"--scores={tmp_path}/scores", "--metrics=ndcg_10", "--print_per_query"),
    )
    assert r"\u202e1" in done.stdout and r"q%1B[31m" in done.stdout
    assert_harmless(done.stdout, done.stderr)


@pytest.mark.parametrize("text", [HOSTILE, "x" * 100_000], ids=["control", "long"])
@pytest.mark.parametrize("kind", [RestLiar, GrpcLiar])
def test_a_command_shows_what_a_server_says(kind, text, judged, tmp_path):
    with contextlib.closing(kind()) as liar:
        liar.lie = packed(json.dumps({"error": text}).encode(), "HTTP/1.1 400 Bad")
        if kind is GrpcLiar:
            liar.lie = text[:5000]
        done = run_command(
            "pipelines.rank",
            *(f"--server={liar.address}", "--model_name=ranker", "--dataset=text"),
            *(f"--protocol={kind.protocol}", f"--input={tmp_path}/judged.txt"),
            f"--output={tmp_path}/out.trec",
            check=False,
        )
    assert done.stderr.startswith(f"Error: The server at {liar.address} refused the ")
    assert done.returncode == 1 and len(done.stderr) < 3000
    assert_harmless(done.stdout, done.stderr)


@pytest.mark.parametrize("unit", ["x", "/x", "`a", "--loss=", "{{", "a; ", "/job:a"])
@pytest.mark.parametrize("error", [ValueError, OSError])
def test_a_message_is_cut(error, unit):
    """In no time, whatever is repeated: a pattern that is tried at each of 100,000
    characters, and reads on to the end, takes a minute."""
    text = failures.explain(error("begin " + unit * 50_000 + " end"), {})
    assert text.startswith("begin ") and text.endswith(" end")
    assert "characters ...]" in text and len(text) < 11_000


UNREAD = 128 + signal.SIGPIPE


@pytest.mark.parametrize("command", sorted(console.abouts()))
def test_help_ends_quietly_where_nobody_reads(command):
    done = run_command(f"pipelines.{command}", "--help", check=False, unread=True)
    assert (done.returncode, done.stderr) == (UNREAD, "")


def test_commands_end_quietly_where_nobody_reads(judged, tmp_path):
    runs = [f"{k}={v[0]}" for k, v in hostile_runs(tmp_path).items()]
    console = "tests.as_console"
    for command in (
        [console, "--help"],
        [console, "compare", *runs],
        ["pipelines.compare", *runs],
        ["pipelines.evaluate", *judged, "--print_per_query"],
    ):
        done = run_command(*command, check=False, unread=True)
        assert (done.returncode, done.stderr) == (UNREAD, ""), command


def test_another_pipe_that_breaks_is_an_error(judged, monkeypatch):
    """Such as that to a process of its own: standard output is still read."""
    done = run_command("tests.pipelines.broken_pipe", *judged, check=False)
    assert done.returncode == 1 and done.stderr.startswith("Error: ")
    assert os.strerror(32) in done.stderr
