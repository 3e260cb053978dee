"""The ranking command: its flags, its messages, and the standard streams."""

import functools
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.commands import ROOT, run_command, told, train

rank = functools.partial(run_command, "pipelines.rank")
TEXT = "qid:a 1:1\nqid:a 2:0.5 #docid = x\nqid:b 25:1\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of 25 features, and a file to rank beside it."""
    directory = tmp_path_factory.mktemp("model")
    train(
        "--flagfile=configs/quickstart.cfg",
        *("--synthetic_num_queries=20", "--synthetic_list_size=5", "--hidden_sizes=4"),
        *("--loss_param=", "--loss=list_net_loss", "--nodraw_curves"),
        *("--num_epochs=1", "--verbose=silent", f"--model_dir={directory}/run"),
    )
    (directory / "new.txt").write_text(TEXT)
    return directory


def test_it_says_what_it_ranked(model, tmp_path):
    output = tmp_path / "deep" / "new.trec"
    flags = (f"--export={model}/run/export", f"--input={model}/new.txt")
    done = rank(*flags, f"--output={output}", "--tag=mine")
    assert done.stdout == f"Ranked 2 queries, 3 items. Written: {output}\n"
    assert done.stderr == ""
    rows = [line.split() for line in output.read_text().splitlines()]
    assert [(row[0], row[3], row[5]) for row in rows] == [
        ("a", "1", "mine"),
        ("a", "2", "mine"),
        ("b", "1", "mine"),
    ]
    done = rank(*flags, f"--output={output}", "--overwrite", "--topn=1")
    assert done.stdout == f"Ranked 2 queries, 3 items (2 written). Written: {output}\n"
    assert output.read_text() == "".join(
        " ".join([*row[:5], "tfr_ext\n"]) for row in rows if row[3] == "1"
    )


@pytest.mark.parametrize("piped", [True, False])
def test_it_ranks_from_the_standard_input_to_the_standard_output(model, piped):
    """Nothing but the lists is on the standard output."""
    flags = [f"--export={model}/run/export", "--input=-", "--output=-"]
    flags.append("--format=jsonl")
    if piped:
        command = [sys.executable, "-m", "pipelines.rank", *flags]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, input=TEXT
        )
    else:
        done = rank(*flags, stdin=model / "new.txt")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["query_id"] for line in lines] == ["a", "b"]
    names = [item["doc_id"] for line in lines for item in line["items"]]
    assert sorted(names) == ["a-1", "a-2", "b-1"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "Exactly one of --export and --server must be given: --export names an "
         "exported model, --server the address of a server that has it."),
        (["--topn=1"], "--output must be given: --input names the files to rank, and "
         "--output where the ranked lists go."),
        (["--server=localhost:8500"], "Exactly one of --export and --server must be "),
        (["--output={out}/a.csv", "--model_name=x"], "--model_name has no meaning "
         "without --server."),
        (["--output={new}.xml"], "--output={new}.xml: the name implies no format. Give "
         "one with --format, or use one of these endings: .trec, .run for 'trec'; "
         ".jsonl for 'jsonl'; .csv for 'csv'; .tsv for 'tsv'."),
        (["--output={new}", "--format=trec"], "--output={new} is an input file, and "
         "would be replaced. Name another file."),
        (["--output={run}/run.trec"], "--output={run}/run.trec exists already. Name "
         "another file, or replace it with --overwrite."),
        (["--output={run}", "--format=csv"], "--output={run} must be a file, but is "
         "something else."),
        (["--output={out}/a.csv", "--tag=x"], "--tag has no meaning without "
         "--format=trec."),
        (["--output={out}/a.csv", "--export={run}"], "{run} has no SavedModel."),
        (["--output={out}/a.csv", "--input={wide}"], "{wide}:1: feature index 26 is "
         "out of range, expected 1 to 25 (num_features=25). Found: '26:1'"),
        (["--output={out}/a.csv", "--input={new},b.tfrecord"], "--input must name "
         "files of one format. The ends of their names imply several: elwc, text. If "
         "all files have the same format, name it with --dataset."),
        (["--output={out}/a.csv", "--dataset=elwc"], "{new}: record 1: expected a "
         "whole TFRecord. Found: a length of "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_is_wrong_is_told_in_flags(model, tmp_path, flags, message):
    wide = tmp_path / "wide.txt"
    wide.write_text("qid:a 26:1\n")
    names = {"run": model / "run", "new": model / "new.txt", "wide": wide,
             "out": tmp_path / "out"}  # fmt: skip
    if flags:
        given = [f"--export={model}/run/export", f"--input={model}/new.txt"]
        flags = [*given, *(flag.format(**names) for flag in flags)]
    said = told(rank(*flags, check=False))
    assert said.startswith(f"Error: {message.format(**names)}")
    assert said.count("\n") == 1
    assert not os.path.exists(tmp_path / "out") or not os.listdir(tmp_path / "out")


def test_it_ends_quietly_where_nobody_reads(model):
    done = rank(
        *(f"--export={model}/run/export", f"--input={model}/new.txt"),
        *("--output=-", "--format=csv"),
        check=False,
        unread=True,
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.grid
def test_it_ends_quietly_where_nobody_reads_on(model, tmp_path):
    """As `head` does not, after a line."""
    many = tmp_path / "many.txt"
    many.write_text("".join(f"qid:{q} 1:{i}\n" for q in range(99) for i in range(999)))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pipelines.rank", f"--export={model}/run/export"),
            *(f"--input={many}", "--output=-", "--format=csv"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"query_id,doc_id,position,rank,score\n"
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait() == 128 + signal.SIGPIPE


def test_a_full_disk_is_told(model):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    command = [
        *(sys.executable, "-m", "pipelines.rank", f"--export={model}/run/export"),
        *(f"--input={model}/new.txt", "--output=-", "--format=csv"),
    ]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode != 0
    assert done.stderr.startswith("Error: The disk of ") and " is full" in done.stderr
