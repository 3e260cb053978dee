"""The words of nasty texts are the same over files, frames, protos and requests."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pandas
import pytest
import tensorflow as tf

from tests.elwc_files import elwc, write
from tfr_ext import data
from tfr_ext.data import fingerprints
from tfr_ext.data.fingerprints import FILL, MISSING, of_values
from tfr_ext.data.tables.table_files import read_table
from tfr_ext.serving import requests

ROOT = pathlib.Path(__file__).parents[2]
WORDS = {
    "Café CAFÉ ÉCOLE": ["café", "café", "école"],
    "ΟΔΟΣ Σοφός ΟΔΟΣ.Σ": ["οδος", "σοφός", "οδος", "σ"],
    "👟 shoe👟box ❤️ 1️⃣": ["shoe", "box", "1"],
    "東京タワー tower": ["東", "京", "タ", "ワ", "ー", "tower"],
    "スーパーmario": ["ス", "ー", "パ", "ー", "mario"],
    "か\u3099 葛\U000e0100城": ["か\u3099", "葛", "城"],
    "no\u00a0break\u2009space": ["no", "break", "space"],
    "Wi-Fi don't 3.5mm": ["wi", "fi", "don", "t", "3", "5mm"],
    "हिन्दी हिन्दी": ["हिन्दी", "हिन्दी"],
    "tab\tand  two": ["tab", "and", "two"],
    "ÄÖÜ_ß": ["äöü", "ß"],
    "...": [],
    "": [],
    "a b c d e f": ["a", "b", "c", "d", "e", "f"],
}
FEATURES = {"texts": ["title", "query"], "context": ["query"], "text_words": 6}


def ids_of(words):
    if not words:
        return [MISSING] + [FILL] * 5
    return [*of_values([x.encode() for x in words]).tolist(), *[FILL] * 6][:6]


EXPECTED = np.array([ids_of(words) for words in WORDS.values()])


@pytest.fixture(scope="module")
def frame():
    """A list for each text, which is its query and its only title."""
    texts = [*WORDS]
    return pandas.DataFrame(
        {"query": texts, "title": texts, "label": 1.0, "id": range(len(texts))}
    )


def check(lists):
    np.testing.assert_array_equal(lists.ids, EXPECTED)
    np.testing.assert_array_equal(lists.context_ids, EXPECTED)


def test_of_a_frame(frame):
    columns = {"features": [], **FEATURES}
    check(data.RankingLists.from_dataframe(frame, "label", "id", **columns))
    tokens = frame.assign(title=frame["title"].str.split(" "))
    check(data.RankingLists.from_dataframe(tokens, "label", "id", **columns))
    arrow = frame.assign(title=frame["title"].astype("string[pyarrow]"))
    check(data.RankingLists.from_dataframe(arrow, "label", "id", **columns))
    # The column of the queries may be a text itself; empty ones are no queries.
    named = frame[frame["query"] != ""].drop(columns="id")
    lists = data.RankingLists.from_dataframe(named, "label", "query", **columns)
    np.testing.assert_array_equal(lists.context_ids, EXPECTED[frame["query"] != ""])


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "jsonl"])
def test_of_a_file(frame, ending, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"texts.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, frame.to_dict("records"))))
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    check(read_table(str(path), "label", "id", features=[], **FEATURES))


@pytest.mark.parametrize("tokens", [True, False])
def test_of_protos(frame, tokens, tmp_path):
    def values(text):
        return [x.encode() for x in (text.split(" ") if tokens else [text])]

    protos = []
    for text, number in zip(frame["title"], frame["id"]):
        item = {"label": [1.0], "title": values(text)}
        context = {"query_id": [str(number).encode()], "query": values(text)}
        protos.append(elwc([item], **context))
    schema = data.ElwcSchema(
        (), text_columns=["title", "query"], context_columns=["query"], text_words=6
    )
    path = write(tmp_path / "a", protos)
    lists = data.read_elwc(path, 0, schema=schema)
    check(lists)
    records = tf.constant([proto.SerializeToString() for proto in protos])
    found = data.ElwcFeatures.of(lists.spec).parse(records)
    np.testing.assert_array_equal(found["ids"][:, 0], EXPECTED)
    np.testing.assert_array_equal(found["context_ids"], EXPECTED)


def test_of_a_request(frame):
    spec = data.FeatureSpec(
        (data.Feature("title", "text", width=6), data.Feature("query", "text", True, 6))
    )
    texts = tf.constant(frame["title"].tolist())
    request = {"title": tf.reshape(texts, [2, 7]), "query": texts[:2]}
    found = requests.with_ids(request, spec)
    np.testing.assert_array_equal(found["ids"], EXPECTED.reshape(2, 7, 6))
    np.testing.assert_array_equal(found["context_ids"], EXPECTED[:2])


def test_what_is_cut_or_no_text_is_told(frame):
    columns = {"features": [], **FEATURES, "text_words": 5}
    with pytest.warns(UserWarning, match="3 of 14 texts have more than 5 words; the"):
        data.RankingLists.from_dataframe(frame, "label", "id", **columns)
    rows = pandas.DataFrame({"title": "a", "query": ["a b"] * 4 + ["c"], "label": 1.0})
    rows["id"] = rows["query"]
    columns |= {"text_words": 1}
    with pytest.warns(UserWarning, match="'query': 1 of 2 texts have more than 1 word"):
        data.RankingLists.from_dataframe(rows, "label", "id", **columns)
    wrong = frame.assign(title=[b"caf\xe9 bar", *frame["title"].tolist()[1:]])
    columns = {"features": [], **FEATURES}
    with pytest.warns(UserWarning, match="'title': 1 of 14 texts have bytes that are"):
        lists = data.RankingLists.from_dataframe(wrong, "label", "id", **columns)
    assert lists.ids[0, :2].tolist() == of_values([b"caf", b"bar"]).tolist()
    wrong = frame.assign(title=[{}] * 14)
    with pytest.raises(ValueError, match="Row 0 .*: column 'title' is {}, expected"):
        data.RankingLists.from_dataframe(wrong, "label", "id", **columns)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_numbers_are_texts_as_they_are_written(ending, tmp_path):
    pytest.importorskip("pyarrow")
    years = pandas.array([2019, None, 12345678901234567], "Int64")
    frame = pandas.DataFrame({"id": [1, 1, 1], "year": years, "size": [7.0, 7.5, 0.1]})
    frame["label"] = 1
    path, columns = tmp_path / f"numbers.{ending}", {"texts": ["year", "size"]}
    if ending == "jsonl":
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        writer = frame.to_csv if ending == "csv" else frame.to_parquet
        writer(path, index=False)
    columns |= {"features": [], "text_words": 2}
    found = [
        data.RankingLists.from_dataframe(frame, "label", "id", **columns).ids,
        read_table(str(path), "label", "id", **columns).ids,
    ]
    words = [["2019"], [], ["12345678901234567"]], [["7", "0"], ["7", "5"], ["0", "1"]]
    expected = [[ids_of(x)[:2] for x in column] for column in words]
    for dtype in ("float32", "Float32"):
        short = frame.assign(size=frame["size"].astype(dtype))
        found += [data.RankingLists.from_dataframe(short, "label", "id", **columns).ids]
    for ids in found:
        np.testing.assert_array_equal(ids, np.concatenate(expected, axis=1))


@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_the_locale_of_the_machine_does_not_change_words(locale):
    texts = "TITLE INDEX İzmir I Ìa Íb Ĩc Įd Ȉ IJ Ĳ Ǐ ÄÖÜ ΟΔΟΣ"
    script = (
        "import sys\nimport tensorflow as tf\n"
        "from tfr_ext.data.fingerprints import words\n"
        "print(words(tf.constant([sys.argv[1]])).to_list())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, texts],
        env={**os.environ, "LC_ALL": locale, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = fingerprints.words(tf.constant([texts])).to_list()
    assert done.stdout.strip() == str(expected) and expected[0][:2] == [
        b"title",
        b"index",
    ]
