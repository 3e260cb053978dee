"""The fast reader of LETOR text: array operations over the bytes of a chunk.

They accept text or give up: `diagnosis` re-reads what they do not understand.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tfr_ext.data.letor import diagnosis
from tfr_ext.data.letor.diagnosis import Chunk

# If every line is good, each matches exactly once and as a whole; otherwise there are
# fewer matches than lines. Group 3 runs to the end of the line, including the comment:
# `[^\n]*` is the one loop that `re` runs at the speed of memory.
_LINE = re.compile(
    rb"^[ \t]*(?:([^\x00-\x20\x7f#]+)[ \t]+qid:([^\x00-\x20\x7f#]+)"
    rb"([ \t#][^\n]*)?|#[^\n]*)?\n",
    re.MULTILINE,
)
# The same for lines that may have no label.
_UNLABELLED_LINE = re.compile(
    rb"^[ \t]*(?:(?:([^\x00-\x20\x7f#]+)[ \t]+)?qid:([^\x00-\x20\x7f#]+)"
    rb"([ \t#][^\n]*)?|#[^\n]*)?\n",
    re.MULTILINE,
)
_DOC_ID_LINE = re.compile(
    rb"^[ \t]*docid[ \t]*=[ \t]*([^ \t\n]+)[^\n]*\n", re.MULTILINE | re.IGNORECASE
)
_NUMBER_TOKEN = re.compile(rb"(?<![^ ])" + diagnosis.NUMBER + rb"(?![^ ])")
_TABS_TO_BLANKS = bytes.maketrans(b"\t", b" ")
_NULL = np.frombuffer(b"NULL", np.uint8)

_BLANK, _COLON, _DOT, _NEWLINE, _MINUS, _PLUS, _E = b" :.\n-+e"
_WORD = 8  # Digits of a number that are read at once, as the bytes of an uint64.
_PADDING = b"0" * _WORD  # So that eight bytes can be read at each place before.
_EXACT = 2.0**53  # Integers below are exact in float64, and so are these powers:
_POWERS = 10.0 ** np.arange(_WORD + 1)
_LONG = 3 * _WORD
_SCALES = 10.0 ** np.arange(-128.0, 128)


def parse_fast(
    text: bytes,
    first_line: int,
    num_features: int | None,
    missing_value: float,
    labelled: bool = True,
) -> Chunk | None:
    """Reads whole lines by array operations; returns None if it cannot validate them.

    The arguments are those of `diagnosis.parse_slowly`.
    """
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if b"\r" in text or b"\0" in text:
        return None
    found = (_LINE if labelled else _UNLABELLED_LINE).findall(text)
    if len(found) != text.count(b"\n"):
        return None
    lines: Any = range(first_line, first_line + len(found))
    rows = [row for row in found if row[1]]
    if not rows:
        return diagnosis.parse_slowly(b"", "", 1, None, 0.0)  # Nothing.
    if len(rows) != len(found):
        lines = [line for line, row in zip(lines, found) if row[1]]
    label_tokens, query_tokens, rests = zip(*rows)
    doc_ids: list[str] | None = None
    try:
        parse_label = diagnosis.label_parser(labelled)
        known = {token: parse_label(token) for token in {*label_tokens}}
        query_ids = b"\n".join(query_tokens).decode().split("\n")
        if b"#" in text:
            rests, _, comments = zip(*[rest.partition(b"#") for rest in rests])
            tokens = _DOC_ID_LINE.findall(b"\n".join(comments) + b"\n")
            decoded = b"\n".join(tokens).decode().split("\n")
            doc_ids = decoded if len(tokens) == len(rows) else None
    except ValueError:  # Also of decode().
        return None
    body = b"\n".join([*rests, _PADDING])
    separators = _find_separators(body)
    if separators is None:  # Perhaps only for more blanks than one, or tabs.
        body = re.sub(b"  +", b" ", body.translate(_TABS_TO_BLANKS))
        separators = _find_separators(body)
    if separators is None:
        return None
    counts, *parts = separators
    features = _parse_features(*parts)
    if features is None:
        return None
    index, value, null = features
    value[null] = missing_value
    num_null, repeats = len(null), []
    limit = diagnosis.MAX_INDEX if num_features is None else num_features
    if index.size and not (1 <= index.min() and index.max() <= limit):
        return None
    dropped = _find_given_again(counts, index)
    if len(dropped):
        within = np.searchsorted(np.cumsum(counts), dropped, "right")
        repeats = [lines[row] for row in np.unique(within)]
        counts -= np.bincount(within, minlength=len(counts))
        index, value = np.delete(index, dropped), np.delete(value, dropped)
        num_null = len(np.setdiff1d(null, dropped))
    labels = np.fromiter(map(known.__getitem__, label_tokens), np.float32, len(rows))
    return Chunk(
        lines, labels, query_ids, doc_ids, counts, index, value, num_null, repeats
    )


def _find_given_again(counts: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Returns the places of the features whose index the same line gives again."""
    ends = np.cumsum(counts)
    falls = index[1:] <= index[:-1]
    falls[ends[(ends > 0) & (ends < len(index))] - 1] = False  # Between two lines.
    if not falls.any():
        return np.zeros(0, np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    keys = row * (index.max() + 1) + index
    order = np.argsort(keys, kind="stable")
    return order[:-1][np.diff(keys[order]) == 0]


def _find_separators(body: bytes) -> tuple[np.ndarray, ...] | None:
    """Finds the separators in lines that are ` INDEX:VALUE INDEX:VALUE ...`.

    Returns the number of features of each line, and the arguments of `_parse_features`;
    None if blanks, colons, dots and line feeds do not follow each other as they should.
    """
    text = np.frombuffer(body, np.uint8)
    found = (text <= _BLANK) | (text == _COLON) | (text == _DOT)
    places = np.flatnonzero(found)
    chars = text[places]
    newlines = np.flatnonzero(chars == _NEWLINE)
    colons = np.flatnonzero(chars == _COLON)
    dotted = chars[colons + 1] == _DOT
    trailing = chars[newlines - 1] == _BLANK
    trailing &= places[newlines] - places[newlines - 1] == 1
    # A colon accounts for the blank before it and the dot next to it, a line feed for
    # the blank right before it. If these are all separators there are, then no blank,
    # dot or other byte stands elsewhere, and each piece between two separators is what
    # its place says: nothing in one line can make up for something in another.
    expected = 2 * len(colons) + np.count_nonzero(dotted)
    expected += len(newlines) + np.count_nonzero(trailing)
    if len(places) != expected or (chars[colons - 1] != _BLANK).any():
        return None
    counts = np.diff(np.searchsorted(colons, newlines), prepend=0)
    return counts, text, places, colons, dotted


def _parse_features(
    text: np.ndarray, places: np.ndarray, colons: np.ndarray, dotted: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Reads the features around some colons from what `_find_separators` returned.

    Returns the indices, the values, and which of the values are `NULL`; None if
    anything else is not a number.
    """
    # words[i] is text[i + 1:i + 9], what follows the separator in place i.
    words: np.ndarray = np.ndarray(
        [len(text) - _WORD], "V8", text, offset=1, strides=[1]
    )

    blank, begin = places[colons - 1], places[colons]
    length = begin - blank - 1
    index, bad = _parse_digits(words[blank], length)
    if bad.any() or ((length < 1) | (length > _WORD)).any():
        return None

    # VALUE is [-]WHOLE[.FRACTION]: with few digits both are integers, and
    # (WHOLE * 10**n + FRACTION) / 10**n rounds once, as float() of the text does.
    middle = places[colons + 1]
    end = places[colons + 1 + dotted]
    minus = text[begin + 1] == _MINUS
    whole_length = middle - begin - 1 - minus
    fraction_length = end - middle - dotted
    whole, bad = _parse_digits(words[begin + minus], whole_length)
    fraction, bad_fraction = _parse_digits(words[middle], fraction_length)
    power = _POWERS.take(fraction_length, mode="clip")
    number = whole * power + fraction
    digits = whole_length + fraction_length
    bad |= bad_fraction
    odd = bad != 0
    odd |= np.maximum(whole_length, fraction_length) > _WORD
    odd |= (digits < 1) | (number >= _EXACT)
    number /= power
    np.negative(number, out=number, where=minus)
    with np.errstate(over="ignore", under="ignore"):
        value = number.astype(np.float32)

    # Everything else is long, NULL, left to the C library, or wrong.
    rest = np.flatnonzero(odd)
    if not len(rest):
        return index, value, rest
    value[rest], known = _parse_long(
        text, words, begin[rest], middle[rest], end[rest], dotted[rest]
    )
    rest = rest[~known]
    begin, end = begin[rest], end[rest]
    heads = words[begin].view(np.uint8).reshape(-1, _WORD)
    is_null = (end - begin == 5) & (heads[:, :4] == _NULL).all(axis=1)
    null, other = rest[is_null], rest[~is_null]
    if (digits[other] < 1).any():
        return None
    others = _parse_numbers(text, begin[~is_null] + 1, end[~is_null])
    if others is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        value[other] = others
    if not np.isfinite(value[other]).all():
        return None
    return index, value, null


def _parse_long(
    text: np.ndarray,
    words: np.ndarray,
    begin: np.ndarray,
    middle: np.ndarray,
    end: np.ndarray,
    dotted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Reads [+-]WHOLE[.FRACTION][e[+-]XXX] with up to 24 digits.

    A number stands between a colon at `begin` and a separator at `end`. Its dot is at
    `middle`, which is `end` where there is none, and `words[i]` are the eight bytes
    after `text[i]`.

    Returns the numbers, and whether each is certainly what float() and then rounding to
    float32 makes of the text. Otherwise the number may be anything.
    """
    first = text[begin + 1]
    minus = first == _MINUS
    signed = minus | (first == _PLUS)
    tail = np.zeros_like(end)  # Length of e[+-]XXX.
    for size in range(2, 6):
        mark = end - size
        tail[((text[mark] | 0x20) == _E) & (mark > begin)] = size
    stop = end - tail
    sign = text[stop + 1]
    tail_signed = (tail > 0) & ((sign == _MINUS) | (sign == _PLUS))
    tail_digits = np.where(tail > 0, tail - 1 - tail_signed, 0)
    exponent, bad = _parse_digits(words[stop + tail_signed], tail_digits)
    known = (tail == 0) | (tail_digits > 0)
    np.negative(exponent, out=exponent, where=tail_signed & (sign == _MINUS))
    whole_length = np.where(dotted, middle, stop) - begin - 1 - signed
    fraction_length = np.where(dotted, stop - middle - 1, 0)
    number = np.zeros(len(begin))
    for before, total in ((begin + signed, whole_length), (middle, fraction_length)):
        for skipped in range(0, _LONG, _WORD):
            length = np.clip(total - skipped, 0, _WORD)
            if not length.any():
                break
            place = np.minimum(before + skipped, len(words) - 1)
            part, bad_digit = _parse_digits(words[place], length)
            bad |= bad_digit
            number = number * _POWERS[length] + part
    # Beyond the table a number is 0 or infinite in float32, if it is not 0 anyway.
    exponent += 128 - fraction_length
    with np.errstate(over="ignore", under="ignore"):
        number *= _SCALES.take(exponent, mode="clip")
        np.negative(number, out=number, where=minus)
        # Each step above rounds, by some 1e-16 of the number. That matters only to the
        # few numbers that are this close to the middle of two float32 values.
        value = (number * (1 - 1e-14)).astype(np.float32)
        known &= value == (number * (1 + 1e-14)).astype(np.float32)
    known &= (bad == 0) & np.isfinite(value) & (whole_length + fraction_length > 0)
    known &= np.maximum(whole_length, fraction_length) <= _LONG
    return value, known


def _parse_digits(
    words: np.ndarray, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the first `length` bytes of each word as an integer; 0 if more than 8.

    Also returns a value that is not 0 where a byte is not a digit.
    """
    # In a little-endian word the first byte is the lowest. After xor, digits are 0 to
    # 9, and the shift makes them the last bytes, after as many 0 as there is room for.
    w = words.view("<u8").astype(np.uint64, copy=False)
    w ^= np.uint64(0x3030303030303030)
    w <<= (64 - 8 * length).view(np.uint64)  # NumPy defines 64 and more: 0.
    # Adding 0x76 sets the high bit of a byte above 9; where it carries into the next
    # byte, this one's own high bit was set already.
    bad = w + np.uint64(0x7676767676767676)
    bad |= w
    bad &= np.uint64(0x8080808080808080)
    # Neighbours become numbers of two, then four, then eight digits.
    w *= np.uint64(10 * (1 << 8) + 1)
    w >>= np.uint64(8)
    w &= np.uint64(0x00FF00FF00FF00FF)
    w *= np.uint64(100 * (1 << 16) + 1)
    w >>= np.uint64(16)
    w &= np.uint64(0x0000FFFF0000FFFF)
    w *= np.uint64(10000 * (1 << 32) + 1)
    w >>= np.uint64(32)
    return w.view(np.int64), bad


def _parse_numbers(
    text: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray | None:
    """Reads text[begin:end] of each number as float() does; None if one is wrong."""
    length = end - begin + 1  # With the blank or line feed after it.
    shift = np.repeat(begin - (np.cumsum(length) - length), length)
    tokens = text[shift + np.arange(len(shift))].tobytes().replace(b"\n", b" ")
    if (
        # Digits and at most one dot (the separators told) need no further check.
        tokens.translate(None, b"0123456789. ")
        and len(_NUMBER_TOKEN.findall(tokens)) != len(begin)
    ):
        return None
    numbers = np.fromstring(tokens, np.float64, sep=" ")
    return numbers if len(numbers) == len(begin) else None
