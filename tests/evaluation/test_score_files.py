"""Scores in files, and what is wrong with them."""

import numpy as np
import pytest

from tfr_ext import evaluation


def test_text_and_arrays_are_read(tmp_path):
    text = tmp_path / "scores"
    text.write_text("1.5\n-2e-3 \n0\n7\n\n")
    np.testing.assert_array_equal(
        evaluation.read_scores(str(text), 4), [1.5, -2e-3, 0, 7]
    )
    text.write_text("")
    assert evaluation.read_scores(str(text), 0).shape == (0,)
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        path = str(tmp_path / "scores.npy")
        np.save(path, np.array([3, 1, 2], dtype))
        found = evaluation.read_scores(path, 3)
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, [3, 1, 2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1\nhigh\n3\n", "scores:2: expected one number. Found: 'high'"),
        ("1\n2 3\n3\n", "scores:2: expected one number. Found: '2 3'"),
        ("1\n\n3\n", "scores:2: expected one number. Found: ''"),
        ("1\n2\nnan\n", "scores:3: expected a number that is finite.*Found: nan"),
        ("-inf\n2\n3\n", "scores:1: .*Found: -inf"),
        ("1\n1e39\n3\n", "scores:2: .*32-bit float. Found: 1e[+]39"),
        ("1\n2\n", "scores:3: expected 3 scores, one per item. Found: 2"),
        ("1\n2\n3\n4\n5\n", "scores:4: expected 3 scores, one per item. Found: 5"),
        ("", "scores:1: expected 3 scores, one per item. Found: 0"),
    ],
)
def test_bad_text_is_told_with_file_and_line(tmp_path, text, told):
    path = tmp_path / "scores"
    path.write_text(text)
    with pytest.raises(ValueError, match=told):
        evaluation.read_scores(str(path), 3)


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros([3, 1]), r"of one dimension. Found: float64 \(3, 1\)"),
        (np.array(["a", "b", "c"]), "array of numbers.*<U1"),
        (np.array([{}, 1, 2]), "scores.npy: .*Python objects"),
        (np.array([1, np.nan, 2]), "npy: item 2: expected a number.*Found: nan"),
        (np.zeros(4), "npy: item 4: expected 3 scores, one per item. Found: 4"),
    ],
    ids=str,
)
def test_a_bad_array_is_told(tmp_path, array, told):
    path = str(tmp_path / "scores.npy")
    np.save(path, array, allow_pickle=True)
    with pytest.raises(ValueError, match=f"scores.npy.*{told}|{told}"):
        evaluation.read_scores(path, 3)


@pytest.mark.parametrize("content", [b"", b"1.0\n2.0\n3.0\n"])
def test_a_file_that_is_no_array_is_told(tmp_path, content):
    path = tmp_path / "scores.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="scores.npy"):
        evaluation.read_scores(str(path), 3)


def array_file(shape="(3,)", descr="'<f8'", rest=b"", version=1):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"
    start = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2, "little")
    return start + header.encode("latin1") + np.float64([3, 1, 2]).tobytes() + rest


GOOD = array_file()


@pytest.mark.parametrize(
    "content",
    [
        *(array_file("(1000000000000,)"), array_file("(9" + "9" * 30 + ",)")),
        *(
            array_file("(-3,)"),
            array_file("(-1,)"),
            array_file("(3, 4611686018427387904, 8)"),
        ),
        *(array_file("(3"), array_file("(True,)"), array_file("('3',)")),
        *(array_file("(2,)"), array_file("(4,)"), array_file("()"), array_file("3")),
        *(array_file(descr="'<c16'"), array_file(descr="'|O'"), array_file(descr="(")),
        *(array_file(descr="'<f4'"), array_file(descr="[('a', '<f8')]")),
        *(array_file(descr="'\xe9'"), array_file(descr="'<M8[s]'"), array_file("{[")),
        *(array_file(rest=b"x"), array_file(version=4), GOOD[:-1], GOOD[:30], GOOD[:7]),
        *(b"PK\x03\x04", b"\x80\x04K\x01."),
    ],
)
def test_damaged_arrays_are_told(tmp_path, content):
    path = tmp_path / "scores.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: "):
        evaluation.read_scores(str(path), 3)


def test_arrays_in_other_orders_and_archives(tmp_path):
    path = tmp_path / "scores.npy"
    for array in (np.array([3, 1, 2], ">f4"), np.longdouble([3, 1, 2])):
        np.save(path, np.asfortranarray(array))
        np.testing.assert_array_equal(evaluation.read_scores(str(path), 3), [3, 1, 2])
    path.write_bytes(GOOD)
    np.testing.assert_array_equal(evaluation.read_scores(str(path), 3), [3, 1, 2])
    np.save(path, np.longdouble(["3", "1", "1e400"]))
    with pytest.raises(ValueError, match="npy: item 3: .*Found: inf"):
        evaluation.read_scores(str(path), 3)
    with open(path, "wb") as file:
        np.savez(file, np.ones(3))
    with pytest.raises(ValueError, match="npy: expected an array of numbers"):
        evaluation.read_scores(str(path), 3)
