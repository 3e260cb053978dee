"""The fast reader of ELWC records: array operations over the bytes of many examples.

The examples of a file usually differ only in the bytes of their numbers. So the layout
of one example, which protobuf has read, says where the numbers are in all others that
have the same bytes everywhere else. The layout of other examples is learnt in the same
way, and `diagnosis` reads any records still in doubt.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfr_ext.data.elwc import diagnosis
from tfr_ext.data.elwc.diagnosis import Chunk, ElwcSchema, Widths
from tfr_ext.data.lists import are_distributions

# Tags of length-delimited fields: the number of the field times 8, plus 2. In a
# `Feature` they are those of a list of bytes, of floats and of integers.
_FIELD_1, _FIELD_2, _FIELD_3 = 0x0A, 0x12, 0x1A
# More layouts than these would gain nothing.
_MAX_LAYOUTS_PER_SIZE = 16
_MAX_LAYOUTS = 512
_START = np.zeros(1, np.int64)
_NONE = np.zeros(0, np.float32)


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Where things are in examples of one size.

    Attributes:
        fixed: places of the bytes that all of them have in common, and the bytes
            themselves.
        features: places of the features, in the order of the schema.
        label: place of the label; None if labels are not wanted.
        label_is_byte: whether it is an integer of one byte instead of a float.
        distribution: place of the label distribution; None if there is none.
        weight: place of the weight; None if there is none.
        doc_id: place of the name; None if there is none.
        below_128: places of bytes that end an integer.
    """

    fixed: list[tuple[slice, np.ndarray]]
    features: list[slice]
    label: slice | None
    label_is_byte: bool
    distribution: slice | None
    weight: slice | None
    doc_id: slice | None
    below_128: list[slice]

    def fits(self, text: bytes, starts: np.ndarray) -> np.ndarray:
        """Tells which examples have this layout."""
        fits = np.ones(len(starts), bool)
        for place, common in self.fixed:
            fits &= (_bytes(text, starts, place) == common).all(axis=1)
        for place in self.below_128:
            fits &= _bytes(text, starts, place)[:, 0] < 128
        return fits

    def labels(self, text: bytes, starts: np.ndarray) -> np.ndarray:
        """Returns the labels of examples."""
        if self.label is None:
            return np.zeros(len(starts), np.float32)
        if self.label_is_byte:
            return _bytes(text, starts, self.label)[:, 0].astype(np.float32)
        return _floats(text, starts, self.label)[:, 0]


class FastParser:
    """Reads records whose examples have layouts that it knows or can learn."""

    def __init__(self, schema: ElwcSchema, widths: Widths):
        """Initialises the parser.

        Args:
            schema: names of the features.
            widths: how many numbers there are.
        """
        self._schema = schema
        self._widths = widths
        self._layouts: dict[int, list[_Layout]] = {}
        self._num_layouts = 0

    def parse(self, records: Sequence[bytes]) -> Chunk | None:
        """Reads records; returns None if in any doubt.

        Args:
            records: serialised `ExampleListWithContext` protos.
        """
        if self._num_layouts > _MAX_LAYOUTS:
            return None
        try:
            return self._parse(records)
        except (IndexError, ValueError):  # ValueError: also of protobuf and decode().
            return None

    def _parse(self, records: Sequence[bytes]) -> Chunk:
        schema, widths = self._schema, self._widths
        starts: list[int] = []
        sizes: list[int] = []
        lengths, query_ids, contexts = [], [], []
        base = 0
        for record in records:
            before = len(starts)
            context = _find_examples(record, base, starts, sizes)
            query_id, features = diagnosis.parse_context(
                _example(context), schema, widths
            )
            if len(starts) == before:
                raise ValueError("an empty list")
            lengths.append(len(starts) - before)
            query_ids.append(query_id)
            contexts.append(features)
            base += len(record)
        items = len(starts)
        width = sum(widths.features)
        self._features = np.empty([0, 0], np.float32)
        self._labels = np.empty(items, np.float32)
        self._distributions = np.empty([items, widths.grades or 0], np.float32)
        self._weights = np.ones(items, np.float32)
        self._doc_ids: list[str | None] = [None] * items
        self._gather(b"".join(records), np.array(starts), np.array(sizes))
        self._labels += np.float32(0)  # -0.0 becomes 0.0.
        judged, found = self._labels >= 0, self._features[:, :width]
        if not (
            np.isfinite(self._labels).all()
            and (np.isfinite(found) | (schema.missing & np.isnan(found))).all()
            and np.isfinite(self._distributions).all()
            and (np.isfinite(self._weights) & ~(judged & (self._weights < 0))).all()
        ):
            raise ValueError("a number is not finite, or negative")
        if widths.grades is not None and not (
            are_distributions(self._distributions[judged]).all()
        ):
            raise ValueError("not a distribution")
        if widths.context:
            self._features[:, width:] = np.repeat(contexts, lengths, axis=0)
        doc_ids = [x for x in self._doc_ids if x is not None]
        return Chunk(
            self._features,
            self._labels,
            np.array(lengths),
            query_ids,
            doc_ids if len(doc_ids) == items else None,
            None if widths.grades is None else self._distributions,
            self._weights if schema.weight else None,
        )

    def _gather(self, text: bytes, starts: np.ndarray, sizes: np.ndarray) -> None:
        """Reads examples, those of one size at a time."""
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            layouts = self._layouts.setdefault(size, [])
            number = 0
            while len(chosen):
                if number == len(layouts):
                    if number == _MAX_LAYOUTS_PER_SIZE:
                        self._num_layouts = _MAX_LAYOUTS + 1
                        raise ValueError("too many layouts")
                    start = int(starts[chosen[0]])
                    example = text[start : start + size]
                    layouts.append(_learn(example, self._schema, self._widths))
                    self._num_layouts += 1
                fits = layouts[number].fits(text, starts[chosen])
                self._take(layouts[number], text, starts, chosen[fits])
                chosen = chosen[~fits]
                number += 1

    def _take(
        self, layout: _Layout, text: bytes, all_starts: np.ndarray, where: np.ndarray
    ) -> None:
        """Reads examples of one layout."""
        items, starts = len(all_starts), all_starts[where]
        width = self._widths.num_features
        parts = [_floats(text, starts, place) for place in layout.features]
        if len(parts) == 1 and parts[0].shape == (items, width):
            self._features = parts[0]  # All there is, and no need to copy it.
        else:
            if self._features.shape != (items, width):
                self._features = np.empty([items, width], np.float32)
            column = 0
            for part in parts:
                self._features[where, column : column + part.shape[1]] = part
                column += part.shape[1]
        self._labels[where] = layout.labels(text, starts)
        if layout.distribution is not None:
            self._distributions[where] = _floats(text, starts, layout.distribution)
        if layout.weight is not None:
            self._weights[where] = _floats(text, starts, layout.weight)[:, 0]
        if layout.doc_id is not None:
            for i, name in zip(where.tolist(), _texts(text, starts, layout.doc_id)):
                self._doc_ids[i] = diagnosis.parse_name(name, "")


def _find_examples(
    record: bytes, base: int, starts: list[int], sizes: list[int]
) -> bytes:
    """Appends where the examples of a record are, and returns its context.

    Raises:
        ValueError: if it has anything but examples and one context.
        IndexError: if it ends in the middle.
    """
    at, end = 0, len(record)
    context = None
    while at < end:
        begin = at
        tag, size = record[at], record[at + 1]
        at += 2
        if size >= 128:
            size = (size & 127) | record[at] << 7
            at += 1
            if size >= 1 << 14:
                size = (size & 0x3FFF) | record[at] << 14
                at += 1
                if size >= 1 << 21:
                    raise ValueError("a large example")
        if at + size > end:
            raise ValueError("a field ends after the record")
        if tag == _FIELD_1:
            starts.append(base + at)
            sizes.append(size)
            # Often the next examples have the same size, and are found at once.
            step = at + size - begin
            alike = _count_alike(record, begin, at, step)
            starts.extend(range(base + at + step, base + at + step * alike, step))
            sizes.extend([size] * (alike - 1))
            at = begin + step * alike
            continue
        elif tag == _FIELD_2 and context is None:
            context = record[at : at + size]
        else:
            raise ValueError("another field")
        at += size
    return context or b""


def _count_alike(record: bytes, begin: int, at: int, step: int) -> int:
    """Returns how many fields in a row begin with the bytes from `begin` to `at`."""
    most = (len(record) - begin) // step
    heads: np.ndarray = np.ndarray(
        [most, at - begin], np.uint8, record, begin, (step, 1)
    )
    differs = (heads != heads[0]).any(axis=1)
    return int(differs.argmax()) or most


def _learn(example: bytes, schema: ElwcSchema, widths: Widths) -> _Layout:
    """Finds out where things are in an example.

    Raises:
        ValueError: if it is in any way unusual.
        IndexError: if it ends in the middle.
    """
    free = np.zeros(len(example), bool)
    below_128: list[int] = []
    places: dict[str, tuple[int, slice]] = {}
    ((tag, features),) = _fields(example, slice(0, len(example)))
    _expect(tag == _FIELD_1)
    for tag, entry in _fields(example, features):
        _expect(tag == _FIELD_1)
        (key_tag, key), (tag, value) = _fields(example, entry)
        _expect(key_tag == _FIELD_1 and tag == _FIELD_2)
        name = example[key].decode()
        _expect(name not in places)
        ((kind, values),) = _fields(example, value)
        tags, contents = zip(*_fields(example, values))
        _expect(set(tags) == {_FIELD_1})
        place = contents[0]
        if len(contents) > 1:
            _expect(kind == _FIELD_1)
            kind = 0  # Several texts: not a feature that can be asked for.
            for content in contents:
                free[content] = True
        elif kind == _FIELD_1:
            free[place] = True
        elif kind == _FIELD_2:
            _expect((place.stop - place.start) % 4 == 0)
            free[place] = True
        elif kind == _FIELD_3 and place.stop - place.start in range(1, 10):
            # Whole integers, whatever is before the last byte of the last.
            free[place] = True
            below_128.append(place.stop - 1)
        else:
            raise ValueError("another kind")
        places[name] = kind, place

    def floats(name: str, width: int) -> slice:
        kind, place = places[name]
        _expect(kind == _FIELD_2 and place.stop - place.start == 4 * width)
        return place

    try:
        parts = [floats(*each) for each in zip(schema.features, widths.features)]
        label, label_is_byte = None, False
        if schema.label is not None:
            kind, label = places[schema.label]
            label_is_byte = kind == _FIELD_3
            if label_is_byte:
                _expect(label.stop - label.start == 1)
            else:
                floats(schema.label, 1)
        distribution = None
        if widths.grades is not None:
            distribution = floats(schema.label_distribution, widths.grades)
        elif schema.label_distribution:
            _expect(schema.label_distribution not in places)
        weight = floats(schema.weight, 1) if schema.weight else None
        doc_id = None
        if schema.doc_id and schema.doc_id in places:
            doc_kind, doc_id = places[schema.doc_id]
            _expect(doc_kind == _FIELD_1)
    except KeyError as error:
        raise ValueError("a feature is missing") from error
    borders = np.flatnonzero(np.diff(free, prepend=True, append=True)).tolist()
    fixed = [slice(*border) for border in zip(borders[::2], borders[1::2])]
    layout = _Layout(
        [(place, np.frombuffer(example[place], np.uint8)) for place in fixed],
        parts,
        label,
        label_is_byte,
        distribution,
        weight,
        doc_id,
        [slice(at, at + 1) for at in below_128],
    )
    _check(layout, example, schema, widths)
    return layout


def _check(layout: _Layout, example: bytes, schema: ElwcSchema, widths: Widths) -> None:
    """Checks that a layout reads its example as protobuf does."""
    item = diagnosis.parse_example(_example(example), schema, widths)
    found = [_floats(example, _START, place)[0] for place in layout.features]
    _expect(np.array_equal(np.concatenate([_NONE, *found]), item.features))
    _expect(bool(layout.labels(example, _START)[0] == item.label))
    if layout.distribution is not None and item.distribution is not None:
        shares = _floats(example, _START, layout.distribution)[0]
        _expect(np.array_equal(shares, item.distribution))
    if layout.weight is not None:
        _expect(bool(_floats(example, _START, layout.weight)[0, 0] == item.weight))
    if layout.doc_id is not None:
        _expect(example[layout.doc_id].decode() == item.doc_id)


def _example(text: bytes) -> tf.train.Example:
    try:
        return tf.train.Example.FromString(text)
    except diagnosis.DecodeError as error:
        raise ValueError("not an Example") from error


def _fields(text: bytes, within: slice) -> Iterator[tuple[int, slice]]:
    """Yields the tag and the place of the content of each field of a message."""
    at, end = within.start, within.stop
    while at < end:
        tag, size = text[at], text[at + 1]
        at += 2
        _expect(tag & 7 == 2)
        shift = 7
        size &= 127
        while text[at - 1] >= 128:
            _expect(shift <= 21)
            size |= (text[at] & 127) << shift
            shift += 7
            at += 1
        _expect(at + size <= end)
        yield tag, slice(at, at + size)
        at += size


def _expect(condition: bool) -> None:
    if not condition:
        raise ValueError("an unusual example")


def _bytes(text: bytes, starts: np.ndarray, place: slice) -> np.ndarray:
    """Returns uint8 `[examples, size]`: what is at a place in each example."""
    size = place.stop - place.start
    # Number i is text[place.start + i:place.stop + i]; only those asked for are made.
    windows: np.ndarray = np.ndarray(
        [len(text) - place.stop + 1], f"V{size}", text, place.start, (1,)
    )
    return windows[starts].view(np.uint8).reshape(-1, size)


def _floats(text: bytes, starts: np.ndarray, place: slice) -> np.ndarray:
    return _bytes(text, starts, place).view("<f4")


def _texts(text: bytes, starts: np.ndarray, place: slice) -> list[bytes]:
    size = place.stop - place.start
    return [text[at : at + size] for at in (starts + place.start).tolist()]
