"""What is the same for all readers of text: marks, numbers, names, lines and pipes."""

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.data.damage import PACKERS, unzipped
from tests.helpers import make_lists
from tfr_ext import data, evaluation
from tfr_ext.core import decimals, setting_kinds
from tfr_ext.data import text_files
from tfr_ext.data.elwc import manifest
from tfr_ext.data.letor import byte_ranges
from tfr_ext.evaluation import runs

NBSP_NAME = "a\u00a0b"


def plain(lists):
    return (
        list(lists.query_ids),
        lists.labels.tolist(),
        lists.features.tolist(),
        lists.doc_ids,
    )


def read_range(path):
    (part,) = byte_ranges.split_file(path, 1 << 20)
    (lists,) = byte_ranges.read_range(part, 1)
    return plain(lists)


def read_csv(path):
    if not path.endswith(".csv"):
        path = shutil.copy(path, f"{path}.csv")
    columns = {"features": ["x"], "doc_id": "doc"}
    return plain(data.read_table(path, "label", "query", **columns))


def read_run(path):
    lists = make_lists([2])
    names = [NBSP_NAME] if NBSP_NAME in text_of(path) else ["q"]
    run = evaluation.read_run(
        path, data.RankingLists(lists.features, lists.labels, lists.row_splits, names)
    )
    return {query: dict(documents) for query, documents in run.documents.items()}


def read_per_query(path):
    member = runs.read("A", [path]).members[0]
    return member.queries, member.values["map"].tolist()


def read_history(path):
    (column,) = runs._read_table(path, "epoch", any_number=True)[1].values()
    return column.tolist()


def text_of(path):
    """The text of a file, nothing of a pipe."""
    if text_files.is_pipe(path):
        return ""
    with open(path, "rb") as file:
        content = file.read()
    return unzipped(content).decode(errors="replace")


# What reads files of lines: its reader, and a file with NUMBER and NAME in it.
LINES = {
    "letor label": (lambda path: plain(data.read_letor(path)), "NUMBER qid:NAME 1:2\n"),
    "letor value": (
        lambda path: plain(data.read_letor(path)),
        "1 qid:NAME 1:NUMBER #docid = NAME\n",
    ),
    "letor index": (lambda path: plain(data.read_letor(path)), "1 qid:NAME NUMBER:2\n"),
    "letor range": (read_range, "1 qid:NAME 1:NUMBER\n"),
    "csv": (read_csv, "query,x,label,doc\nNAME,NUMBER,1,NAME\n"),
    "run": (read_run, "NAME Q0 NAME 1 NUMBER tag\nNAME Q0 d 2 -3 tag\n"),
    "qrels": (
        lambda path: plain(evaluation.read_qrels(path)),
        "NAME 0 NAME NUMBER\nNAME 0 d 1\n",
    ),
    "scores": (lambda path: evaluation.read_scores(path, 2).tolist(), "NUMBER\n1\n"),
    "per query": (read_per_query, "query\tmap\nNAME\tNUMBER\n"),
    "history": (read_history, "epoch\tloss\n1\tNUMBER\n"),
}
WITH_NAMES = [name for name, (_, text) in LINES.items() if "NAME" in text]


def written(path, reader, number="3", name="q", encode="utf-8", pack=bytes):
    """A file for a reader, and what it reads there."""
    read, text = LINES[reader]
    text = text.replace("NUMBER", number).replace("NAME", name)
    path.write_bytes(pack(text.encode(encode)))
    return read(str(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.csv"


PACKS = [bytes, *PACKERS.values()]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("reader", LINES)
def test_a_byte_order_mark_changes_nothing(reader, pack, path):
    expected = written(path, reader)
    assert written(path, reader, encode="utf-8-sig", pack=pack) == expected


NOT_NUMBERS = [*"4_5 \u0663 \uff13 0x10 1e . --1 1,5 3\u00a0".split(" "), ""]


@pytest.mark.parametrize(
    ("reader", "number"),
    [
        (reader, number)
        for reader in LINES
        for number in NOT_NUMBERS
        # An empty cell of a table is a query that does not count.
        if number or reader not in ("per query", "history")
    ],
)
def test_only_decimal_digits_are_numbers(reader, number, path):
    with pytest.raises(ValueError, match=str(path)):
        written(path, reader, number)


@pytest.mark.parametrize("reader", WITH_NAMES)
def test_names_keep_their_no_break_space(reader, path):
    space = "%C2%A0" if reader in ("run", "qrels", "per query") else "\\xa0"
    assert NBSP_NAME.replace("\u00a0", space) in repr(
        written(path, reader, name=NBSP_NAME)
    )


@pytest.mark.parametrize("reader", WITH_NAMES)
def test_text_that_is_not_utf8_is_told_with_its_line(reader, path):
    with pytest.raises(ValueError, match=rf"{path}:\d"):
        written(path, reader, name="\xe9", encode="latin-1")


@pytest.mark.parametrize("place", ["number", "name"])
@pytest.mark.parametrize("reader", LINES)
def test_a_nul_byte_is_told_with_its_line(reader, place, path):
    """Other readers cut a cell there: `0.\\x00912` would be 0."""
    if place == "number" or reader in WITH_NAMES:
        with pytest.raises(ValueError, match=rf"{path}:\d.*NUL byte"):
            written(path, reader, **{place: "0.\x00912"})


@pytest.mark.parametrize(
    ("reader", "line"),
    [
        *(("letor value", line) for line in ("1", "1 qid:q 1", "1 qid:q 1:", "qid:q")),
        *(("letor value", line) for line in ("1 qid:q 1:2:3", "1 1 qid:q 1:2")),
        *(("csv", line) for line in ("q,3,1", "q,3", "q", "q,3,1,d,e", "q,3,1,d,")),
        *(("run", line) for line in ("q Q0 d 1 0.5", "q d 0.5", "q")),
        *(("qrels", line) for line in ("q 0 d", "q d 1", "q 0 d 1 2")),
        *(("scores", line) for line in ("1 2", "1,2", "1\t2")),
        *(("per query", line) for line in ("q", "q\t1\t2")),
        *(("history", line) for line in ("1", "1\t1\t2")),
    ],
)
def test_too_few_and_too_many_cells_are_told_with_their_line(reader, line, path):
    text = LINES[reader][1].replace("NUMBER", "3").replace("NAME", "p")
    path.write_text(f"{text}{line}\n")
    number = text.count("\n") + 1
    with pytest.raises(ValueError, match=rf"{path}:{number}: "):
        LINES[reader][0](str(path))


@pytest.mark.parametrize("number", ["1e39", "9" * 400, "-1e39"])
@pytest.mark.parametrize("reader", sorted(LINES.keys() - {"per query", "history"}))
def test_numbers_that_overflow_are_refused(reader, number, path):
    """Metrics and losses are 64-bit floats; all else has 32 bits."""
    with pytest.raises(ValueError, match=str(path)):
        written(path, reader, number)


@pytest.mark.parametrize("encode", ["utf-16", "utf-16le", "utf-32", "utf-32be"])
@pytest.mark.parametrize("reader", LINES)
def test_another_encoding_is_named_and_can_be_converted(reader, encode, path):
    expected = written(path, reader)
    with pytest.raises(ValueError, match=f"{path}: expected text in UTF-8") as error:
        written(path, reader, encode=encode)
    found, command = str(error.value).split("Found: ")[1].split(". Convert it: ")
    assert found == encode.upper()
    subprocess.run(command, shell=True, check=True, cwd=path.parent)
    assert LINES[reader][0](str(path.parent / "NEW_FILE")) == expected


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("reader", sorted(LINES.keys() - {"csv"}))  # By blocks.
def test_a_line_that_is_too_long_is_told_with_its_line(reader, pack, path, monkeypatch):
    monkeypatch.setattr(text_files, "_CHUNK_BYTES", 64)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 1000)
    line = LINES[reader][1].split("NUMBER")[0].count("\n") + 1
    with pytest.raises(
        ValueError, match=f"{path}:{line}: the line has more than 1,000"
    ):
        written(path, reader, number="0" * 1001, pack=pack)
    written(path, reader, number="0" * 900 + "3", pack=pack)


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize(
    "reader", sorted(LINES.keys() - {"csv", "letor range", "per query"})
)
def test_a_pipe_says_that_it_waits_and_is_read(
    reader, pack, path, tmp_path, monkeypatch
):
    expected = written(path, reader, pack=pack)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    # Not capfd, which may lose a character that is written while it reads.
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(LINES[reader][0](pipe)), daemon=True
    )
    thread.start()
    while "waiting" not in told.getvalue() and thread.is_alive():
        time.sleep(0.01)
    assert f"{pipe} is a pipe" in told.getvalue()
    with open(pipe, "wb", buffering=0) as file:
        for byte in path.read_bytes():  # A writer may be slow.
            file.write(bytes([byte]))
    thread.join()
    assert found == [expected]


def test_what_is_read_more_than_once_is_no_pipe(tmp_path):
    for name, read in {
        "text": lambda path: byte_ranges.split_file(path, 9),
        "elwc": data.read_elwc,
        "scores.npy": lambda path: evaluation.read_scores(path, 1),
        "per_query.tsv": lambda path: runs.read("A", [path]),
    }.items():
        pipe = str(tmp_path / name)
        os.mkfifo(pipe)
        with pytest.raises(ValueError, match=f"{pipe}.*expected a"):
            read(pipe)


@pytest.mark.parametrize("encode", ["utf-8", "utf-8-sig"])
def test_json_files_may_begin_with_a_mark(encode, tmp_path):
    pytest.importorskip("tensorflow_datasets")
    from tfr_ext.datasets import covid_mlia as covid

    found = manifest.Manifest(1, None, {}, {})
    (tmp_path / manifest.FILE_NAME).write_text(found.as_json(), encoding=encode)
    assert manifest.load(str(tmp_path)) == found
    (tmp_path / "table").write_text('{"1": {"d": [0.5]}}', encoding=encode)
    assert covid._read_table(tmp_path / "table", 1) == {"1": {"d": [0.5]}}
    (tmp_path / "metrics.json").write_text(
        json.dumps({"convention": {}, "seed": 3}), encoding=encode
    )
    (tmp_path / "per_query.tsv").write_text("query\tmap\nq\t1\n", encoding=encode)
    assert runs.read("A", [str(tmp_path)]).members[0].seed == 3


def test_a_line_of_70_mebibytes_takes_less_than_a_gibibyte(tmp_path):
    script = textwrap.dedent(
        """
        import gzip, pathlib, re, sys
        from tfr_ext import data, evaluation
        from tests.helpers import make_lists
        directory = sys.argv[1]
        block = b" 1:0" * (1 << 18)
        for name, opener in (("a", open), ("b", lambda *x: gzip.open(*x, 1))):
            with opener(directory + name, "wb") as file:
                file.write(b"1 qid:1 1:1\\n1 qid:1")
                for _ in range(70):
                    file.write(block)
                file.write(b"\\n")
            for read in (data.read_letor, lambda x: evaluation.read_run(x, None)):
                try:
                    read(directory + name)
                except ValueError as error:
                    print(error)
        # Not getrusage's peak, which may be that of the process that started this one.
        status = pathlib.Path("/proc/self/status").read_text()
        print(int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]) / (1 << 20))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, f"{tmp_path}/"], capture_output=True, text=True
    )
    *told, peak = done.stdout.splitlines()
    assert float(peak) < 1, done.stderr
    for line, name in zip(told, "aabb"):
        place = 2 if line is told[0] or line is told[2] else 1
        assert line.startswith(f"{tmp_path}/{name}:{place}: "), told


def read_as_told(path):
    """Runs the command of the error that a file raises, and reads what it writes."""
    with pytest.raises(data.DataFormatError) as error:
        data.read_letor(str(path))
    command = str(error.value).splitlines()[-1]
    subprocess.run(command, shell=True, check=True, cwd=path.parent)
    return data.read_letor(str(path.parent / "NEW_FILE"))


@pytest.mark.parametrize("ending", ["query", "group"])
def test_the_sizes_of_groups_become_queries(ending, tmp_path):
    path = tmp_path / "a file"
    path.write_text("1 1:2 2:3\n0 1:1\n1\t1:4\n")
    (tmp_path / f"a file.{ending}").write_text("2\n1\n")
    lists = read_as_told(path)
    assert lists.query_ids == ["1", "2"] and lists.lengths.tolist() == [2, 1]
    assert lists.features.tolist() == [[2, 3], [1, 0], [4, 0]]


@pytest.mark.parametrize("comment", [None, "1:2 # 3:4"])
def test_indices_from_zero_can_be_made_to_count_from_one(comment, tmp_path):
    x = np.random.default_rng(0).normal(size=[20, 12]).round(3)
    x[:, 1:][x[:, 1:] < 0.5] = 0
    y, queries = np.arange(20) % 3, np.arange(20) // 5
    path = tmp_path / "it's"
    dump_svmlight_file(x, y, str(path), query_id=queries, comment=comment)
    for change in (str, lambda text: text.replace("\n", " # docid=7 1:2#3:4\n")):
        path.write_text(change(path.read_text()))
        lists = read_as_told(path)
        np.testing.assert_array_equal(lists.features, np.float32(x))
        assert lists.labels.tolist() == y.tolist()
        assert lists.query_ids == ["0", "1", "2", "3"]
    assert {*lists.doc_ids} == {"7"}


@pytest.mark.parametrize("text", ["4_5", "\u0663", "1e1", "0x1", "", "\uff13"])
def test_lists_of_flags_are_as_strict(text):
    integers = setting_kinds.Setting("", "", "integers", low=1, high=99)
    with pytest.raises(ValueError, match="must be integers from 1 to 99"):
        setting_kinds.parse(integers, [f"1,{text}"])
    if text == "1e1":  # a number, but no integer
        return
    with pytest.raises(ValueError, match="must be finite numbers"):
        setting_kinds.parse(setting_kinds.Setting("", "", "numbers"), [f"0,{text}"])


def test_integers_of_any_length():
    assert decimals.parse_integer("-0" + "0" * 5000 + "12") == -12
    with pytest.raises(ValueError, match="up to 100 digits. Found: '111"):
        decimals.parse_integer("1" * 5000)
    assert decimals.parse_integer("-12", 12) == -12
    with pytest.raises(ValueError, match="up to 12. Found: '-13'"):
        decimals.parse_integer("-13", 12)
