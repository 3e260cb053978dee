"""The reference reader of ELWC records: slow, with exact error messages.

`tfr_ext.data.elwc.parsing` reads the records that it can validate. This module re-reads
all others with protobuf's own classes, or explains what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfr_ext.core.checks import near
from tfr_ext.core.grades import are_distributions
from tfr_ext.data import text_files
from tfr_ext.data.elwc.message import ExampleListWithContext, other_kind
from tfr_ext.data.elwc.schema import Chunk, ElwcSchema, Widths
from tfr_ext.data.errors import DataFormatError
from tfr_ext.data.features import Feature, FeatureSpec
from tfr_ext.data.fingerprints import ids_and_faults

NO_RECORDS = "the file has no records, expected at least 1"
# Stands for a number of a feature that an example lacks, until `filled`: a NaN with a
# payload that no computation gives.
ABSENT = np.array(0x7FC0A5E7, np.uint32).view(np.float32)
# So many examples at least say whether a category has several values.
_LOOKED_AT = 1000


def measure(records: Iterable[bytes], path: str, schema: ElwcSchema) -> Widths:
    """Returns the widths in the first example of a file with each feature."""
    if schema.spec is not None and schema.spec.embeddings:
        names = ", ".join(x.name for x in schema.spec.embeddings)
        problem = f"the model takes embeddings ({names}), which ELWC files have not"
        hint = "use a table, or shards that `prepare` made of one, with its manifest"
        raise DataFormatError(f"{problem}: {hint}", path)
    numbers = (schema.features, schema.context_features)
    # A model that is known says what the file would say of its categories.
    named = schema.categories if schema.spec is None else ([], [])
    found: tuple[dict[str, tuple[int, str]], ...] = ({}, {})  # Widths and kinds.
    with_several: set[str] = set()
    grades = None
    for count, messages in enumerate(_messages(records, path)):
        if not count:
            grades = _width(messages[0], schema.label_distribution) or None
            if schema.spec is not None and _are_packed(
                messages, schema.spec, schema.query_id
            ):
                problem = "these are shards of `prepare`, but no manifest beside them"
                raise DataFormatError(f"{problem} says what their features are", path)
        for message, kinds, categories in zip(messages, found, named):
            for name in message.features.feature:
                if name not in kinds and (values := _values(message, name))[0]:
                    kinds[name] = len(values[1]), values[0]
            with_several |= {x for x in categories if len(_texts(message, x)) > 1}
        wanted = zip((*numbers, *named), (*found, *found))
        if (count >= _LOOKED_AT or not any(named)) and all(
            name in x for names, x in wanted for name in names
        ):
            break
    widths, integers = [], []
    for context, place in enumerate(("example", "context")):
        kinds, categories = found[context], named[context]
        integers.append(frozenset(x for x in kinds if kinds[x][1] == "int64_list"))
        for name in (x for x in (*numbers[context], *categories) if x not in kinds):
            known = [x == name or x.startswith(f"{name}[") for x in schema.columns]
            if not any(known):
                problem = f"no {place} has a value of {name!r}. Found: {_shown(kinds)}"
                problem += near(name, [*kinds])
                if schema.columns:
                    problem += f" The model takes {_shown(schema.columns)}."
                raise DataFormatError(problem, path)
            kinds[name] = 1 if name in schema.columns else sum(known), ""
        widths.append(tuple(kinds[name][0] for name in numbers[context]))
    whole = (integers[0], integers[1])
    given = zip(chain(*numbers), chain(*widths))
    order = [x for name, width in given for x in Feature(name, width=width).columns]
    if order != [*schema.columns] and sorted(order) == sorted(schema.columns):
        raise ValueError(
            f"`elwc_features` and `elwc_context_features` have the order {order}, but "
            f"the model takes {[*schema.columns]}."
        )
    return Widths(widths[0], widths[1], grades, whole, frozenset(with_several))


def _are_packed(
    messages: Sequence[tf.train.Example], spec: FeatureSpec, query_id: str
) -> bool:
    """Returns whether an example and its context have ids in bytes, not by names."""
    ids = (("ids", spec.num_ids), ("context_ids", spec.num_context_ids))
    found = []
    for message, (name, count), context in zip(messages, ids, (False, True)):
        values = message.features.feature
        names = {x.name for x in spec.encoded(context)} - {query_id}
        if names & {*values}:
            return False
        if count:
            found.append([*map(len, values[name].bytes_list.value)] == [8 * count])
    return any(found)


def _messages(
    records: Iterable[bytes], path: str
) -> Iterator[tuple[tf.train.Example, tf.train.Example]]:
    """Yields each example of a file with its context."""
    number = 0
    for number, record in enumerate(records, 1):
        try:
            elwc = _parse(record)
        except ValueError as error:
            raise DataFormatError(f"record {number}: {error}", path) from None
        for example in elwc.examples:
            yield example, elwc.context
    if not number:
        raise DataFormatError(NO_RECORDS, path)


def has_feature(record: bytes, name: str) -> bool:
    """Returns whether the first example of a record has a feature with a value."""
    try:
        return bool(_width(_parse(record).examples[0], name))
    except ValueError:  # The reader will say what is wrong.
        return False


def parse_slowly(
    records: Sequence[bytes],
    path: str,
    first_record: int,
    schema: ElwcSchema,
    widths: Widths,
) -> Chunk:
    """Reads serialised records one by one and explains the first one that is wrong.

    `first_record` is the number of the first of them in the file, from 1, and `widths`
    is what `measure` found.
    """
    items: list[tuple[Any, ...]] = []
    lengths: list[int] = []
    query_ids: list[str | None] = []
    texts: list[list[list[bytes]]] = []  # Of the categories of each item.
    list_texts: list[list[list[bytes]]] = []
    of_items, of_lists = schema.parsed_categories(widths)
    for number, record in enumerate(records, first_record):
        where = f"record {number}"
        try:
            elwc = _parse(record)
            names, may_be_nan = schema.context_features, schema.takes_nan
            context = _joined(elwc.context, names, widths.context, may_be_nan)
            query_ids.append(_name(elwc.context, schema.query_id))
            list_texts.append([_category(elwc.context, x) for x in of_lists])
            for i, example in enumerate(elwc.examples, 1):
                where = f"record {number}, example {i}"
                items.append(_parse_example(example, context, schema, widths))
                texts.append([_category(example, x) for x in of_items])
        except ValueError as error:
            raise DataFormatError(f"{where}: {error}", path) from None
        lengths.append(len(elwc.examples))
    features, labels, doc_ids, distributions, weights = zip(*items)
    all_features, num_absent = filled(np.stack(features), schema.missing_value)
    ids, faults = _ids(texts, of_items)
    context_ids, faults_of_lists = _ids(list_texts, of_lists)
    return Chunk(
        all_features,
        np.array(labels, np.float32),
        np.array(lengths),
        query_ids,
        None if None in doc_ids else list(doc_ids),
        None if widths.grades is None else np.stack(distributions),
        np.array(weights, np.float32) if schema.weight else None,
        num_absent,
        ids,
        context_ids,
        tuple((faults + faults_of_lists).tolist()),
    )


def filled(features: np.ndarray, missing_value: float) -> tuple[np.ndarray, int]:
    """Returns features with a value in place of `ABSENT`, and the number of these."""
    absent = features.view(np.uint32) == ABSENT.view(np.uint32)
    return np.where(absent, np.float32(missing_value), features), int(absent.sum())


def _parse_example(
    example: tf.train.Example, context: np.ndarray, schema: ElwcSchema, widths: Widths
) -> tuple[np.ndarray, np.float32, str | None, np.ndarray | None, np.float32 | None]:
    """Returns features, label, document id, label distribution and weight."""
    features = _joined(example, schema.features, widths.features, schema.takes_nan)
    label = np.float32(0)
    if schema.label is not None:
        label += _numbers(example, schema.label, 1)[0]  # -0.0 becomes 0.0.
    distribution = None
    name = schema.label_distribution
    if widths.grades is not None:
        distribution = _numbers(example, name, widths.grades)
        if label >= 0 and not are_distributions(distribution[np.newaxis]).all():
            raise ValueError(
                f"{name!r} has {distribution.tolist()}, expected at least 2 "
                "probabilities that sum to 1"
            )
    elif _width(example, name):
        raise ValueError(
            f"there is a {name!r}, expected none, as in the first example of the data"
        )
    weight = None
    if schema.weight:
        weight = _numbers(example, schema.weight, 1)[0]
        if label >= 0 and weight < 0:
            raise ValueError(f"{schema.weight!r} is {weight}, expected a number >= 0")
    doc_id = _name(example, schema.doc_id)
    return np.concatenate([features, context]), label, doc_id, distribution, weight


def _parse(record: bytes) -> Any:
    problem = "the list is empty, expected an ExampleListWithContext with examples"
    try:
        elwc = ExampleListWithContext.FromString(record)
    except DecodeError:
        elwc, problem = None, "expected a serialised ExampleListWithContext"
    if elwc is None or not elwc.examples:
        raise ValueError(problem + other_kind(record))
    return elwc


def _width(example: tf.train.Example, name: str) -> int:
    """Returns how many values a feature has; 0 if it is absent or has no name."""
    return len(_values(example, name)[1])


def _values(example: tf.train.Example, name: str) -> tuple[str, Sequence[Any]]:
    """Returns the kind of a feature and its values; none of both if it is absent."""
    feature = example.features.feature.get(name) if name else None
    kind = feature.WhichOneof("kind") if feature is not None else None
    values = getattr(feature, kind).value if kind else []
    return (str(kind), values) if len(values) else ("", [])


def _shown(names: Iterable[str]) -> str:
    """Returns the first of some names, for messages."""
    names = sorted(names)
    return ", ".join(map(repr, names[:8])) + (", ..." if names[8:] else "") or "nothing"


def _joined(
    example: tf.train.Example,
    names: Sequence[str],
    widths: Sequence[int],
    may_be_nan: bool,
) -> np.ndarray:
    """Returns the numbers of several features in one array."""
    parts = [_numbers(example, *one, may_be_nan) for one in zip(names, widths)]
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _numbers(
    example: tf.train.Example, name: str, width: int, may_be_nan: bool | None = None
) -> np.ndarray:
    """Returns the numbers of a feature; if it may be absent, `ABSENT`."""
    kind, values = _values(example, name)
    if not len(values):
        if may_be_nan is not None:
            return np.full(width, ABSENT)
        present = [*example.features.feature]
        if name in present:
            raise ValueError(f"{name!r} has no value")
        raise ValueError(f"there is no {name!r}. Found: {_shown(present)}")
    if kind == "bytes_list":
        raise ValueError(f"{name!r} is a bytes_list, expected a float_list")
    if width != len(values):
        number = "1 value" if width == 1 else f"{width} values"
        raise ValueError(f"{name!r} has {len(values)} values, expected {number}")
    numbers = np.array(values).astype(np.float32)
    numbers[np.isnan(numbers)] = np.nan  # Not `ABSENT`.
    fine = np.isfinite(numbers)
    if may_be_nan:
        fine |= np.isnan(numbers)
    if not fine.all():
        wrong = int(np.flatnonzero(~fine)[0])
        raise ValueError(
            f"value {wrong + 1} of {name!r} is {numbers[wrong]}, expected a finite "
            "number"
        )
    return numbers


def _texts(example: tf.train.Example, name: str) -> list[bytes]:
    """Returns the values of a category; the empty text is none."""
    kind, values = _values(example, name)
    if kind == "float_list":  # `_category` refuses it.
        return []
    return [x if kind == "bytes_list" else b"%d" % x for x in values if x != b""]


def _category(example: tf.train.Example, feature: Feature) -> list[bytes]:
    """Returns the values of a category, which must be of its kind."""
    name, texts = feature.name, _texts(example, feature.name)
    kind = _values(example, name)[0]
    expected = "int64_list" if feature.is_integer else "bytes_list"
    if kind not in ("", expected):
        raise ValueError(f"{feature.kind} {name!r} is a {kind}, expected a {expected}")
    if feature.kind == "category" and len(texts) > 1 == feature.width:
        raise ValueError(
            f"category {name!r} has {len(texts)} values, expected at most 1, as in the "
            "first examples of the data or in training"
        )
    return texts


def _ids(
    rows: list, features: Sequence[Feature]
) -> tuple[np.ndarray | None, np.ndarray]:
    """Returns the ids of rows of values, and the numbers of `Chunk.faults`."""
    parts, faults = [], np.zeros(2, int)
    for column, feature in zip(zip(*rows), features):
        values = tf.ragged.constant(column, tf.string, ragged_rank=1)
        ids, found = ids_and_faults(values, feature.width, feature.kind)
        parts.append(ids.numpy())
        faults += found.numpy()
    return np.concatenate(parts, axis=1) if parts else None, faults


def _name(example: tf.train.Example, name: str) -> str | None:
    """Returns the text of a feature; None if it is missing."""
    kind, values = _values(example, name)
    if not len(values):
        return None
    if kind == "float_list" or len(values) > 1:
        raise ValueError(
            f"{name!r} is a {kind} of {len(values)}, expected a bytes_list of 1"
        )
    if kind == "int64_list":
        return str(values[0])
    return parse_name(values[0], name)


def parse_name(value: bytes, name: str) -> str:
    """Returns the name of a query or document, the value of a feature `name`."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r} is not text, expected UTF-8") from None
    return text_files.check_name(text, repr(name))
