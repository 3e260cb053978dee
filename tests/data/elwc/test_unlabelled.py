"""ELWC files whose labels are not wanted."""

import dataclasses

import numpy as np
import pytest

from tests.elwc_files import protos, put, write
from tests.helpers import assert_same_lists, make_lists
from tfr_ext import data
from tfr_ext.data.elwc import parsing


@pytest.mark.parametrize("slow", [False, True])
def test_items_need_no_labels(tmp_path, monkeypatch, slow):
    """Those without one, and those that nobody judged, are read as all others."""
    lengths = [3, 1, 30, 2, 5]
    names = [f"D{i * i}" for i in range(sum(lengths))]
    lists = make_lists(lengths, num_features=7, doc_ids=names)
    records = {kind: protos(lists) for kind in ("labelled", "none", "words")}
    for kind, several in records.items():
        for example in (example for proto in several for example in proto.examples):
            if kind != "labelled":
                del example.features.feature["label"]
            if kind == "words":
                put(example.features.feature, "label", [b"good"])
    negative = dataclasses.replace(lists, labels=-lists.labels - 1)
    records["negative"] = protos(negative)
    zeros = np.zeros(lists.num_items, np.float32)
    expected = dataclasses.replace(lists, labels=zeros)
    schema = data.ElwcSchema(label=None, label_distribution="")
    parsed, parse = [], parsing.Parser.checked
    monkeypatch.setattr(
        parsing.Parser,
        "checked",
        lambda *args: parsed.append(None if slow else parse(*args)) or parsed[-1],
    )
    for kind, several in records.items():
        path = write(tmp_path / kind, several)
        assert_same_lists(data.read_elwc(path, schema=schema), expected)
    assert parsed and all((chunk is None) == slow for chunk in parsed)
    with pytest.raises(data.DataFormatError) as error:
        data.read_elwc(tmp_path / "none")
    assert "record 1, example 1: there is no 'label'" in str(error.value)
