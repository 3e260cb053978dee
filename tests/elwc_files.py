"""ELWC files for tests, made and read with protobuf's classes and plain loops."""

import json
import os

import numpy as np
import tensorflow as tf

from tfr_ext.data.elwc import manifest
from tfr_ext.data.elwc.message import ExampleListWithContext

CATEGORY_VALUES = ["acme", "Zoë", b"\xff\x00\xfe", "", None]


def put(feature_map, name, values):
    """Sets a feature of the kind that the values have."""
    feature = feature_map[name]
    values = list(values)
    if isinstance(values[0], bytes):
        feature.bytes_list.value.extend(values)
    elif isinstance(values[0], int):
        feature.int64_list.value.extend(values)
    else:
        feature.float_list.value.extend(values)


def elwc(examples, **context):
    """Returns a proto; `examples` are dicts from names to values."""
    proto = ExampleListWithContext()
    for name, values in context.items():
        put(proto.context.features.feature, name, values)
    for example in examples:
        added = proto.examples.add()
        for name, values in example.items():
            put(added.features.feature, name, values)
    return proto


def protos(lists):
    """Returns the proto of each list, in the layout that this project writes."""
    made = []
    for q, query_id in enumerate(lists.query_ids):
        examples = []
        for i in range(lists.row_splits[q], lists.row_splits[q + 1]):
            example = {
                "float_features": lists.features[i].tolist(),
                "label": [float(lists.labels[i])],
            }
            if lists.doc_ids is not None:
                example["doc_id"] = [lists.doc_ids[i].encode()]
            if lists.label_distributions is not None:
                example["label_distribution"] = lists.label_distributions[i].tolist()
            if lists.weights is not None:
                example["weight"] = [float(lists.weights[i])]
            examples.append(example)
        made.append(elwc(examples, query_id=[query_id.encode()]))
    return made


def with_categories(num_lists=30, most=4, seed=0):
    """A frame with a number, categories and texts, and the protos of its lists."""
    import pandas

    rng = np.random.default_rng(seed)
    rows, protos = [], []

    def drawn(values):
        return values[rng.integers(len(values))]

    for q in range(num_lists):
        device, examples = drawn(["phone", "tv", None]), []
        for i in range(rng.integers(1, 6)):
            tags = [
                drawn(CATEGORY_VALUES[:3])
                for _ in range(rng.integers(most) * (q % 3 > 0))
            ]
            row = {
                "query": f"q{q}",
                "label": float(i % 2),
                "price": float(rng.random()),
            }
            row |= {
                "brand": drawn(CATEGORY_VALUES),
                "shop": drawn([7, -3, 2**62 + 1, None]),
            }
            title = f"{row['brand'] or ''} of {i}"
            rows.append({**row, "tags": tags or None, "device": device})
            rows[-1] |= {"title": title, "words": f"Nr. {q % 4}, TV"}
            example = {"label": [row["label"]], "price": [row["price"]]}
            for name, values in (
                ("brand", [row["brand"]]),
                ("tags", tags),
                ("shop", [row["shop"]]),
                ("title", title.split()),
            ):
                found = [
                    x.encode() if isinstance(x, str) else x
                    for x in values
                    if x is not None
                ]
                example |= {name: found} if found else {}
            examples.append(example)
        context = {} if device is None else {"device": [device.encode()]}
        words = [b"Nr.", b"%d," % (q % 4), b"TV"]  # A text, as tokens.
        context |= {"query_id": [b"q%d" % q], "words": words}
        protos.append(elwc(examples, **context))
    shops = pandas.array([row["shop"] for row in rows], "Int64")
    return pandas.DataFrame(rows).assign(shop=shops), protos


def write(path, records, options=None):
    """Writes a TFRecord file of protos or bytes, and returns its path."""
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            if not isinstance(record, bytes):
                record = record.SerializeToString()
            writer.write(record)
    return str(path)


def write_shards(directory, split, lists, count):
    """Writes lists to shards, and returns what a manifest says of the split."""
    import hashlib

    shards = []
    for k in range(count):
        part = lists.select(range(k, lists.num_lists, count))
        name = f"{split}-{k:05d}-of-{count:05d}.tfrecord"
        path = write(os.path.join(directory, name), protos(part))
        with open(path, "rb") as file:
            content = file.read()
        shards.append(
            manifest.Shard(
                name,
                part.num_lists,
                part.num_items,
                len(content),
                hashlib.sha256(content).hexdigest(),
            )
        )
    return manifest.Split(
        shards, {}, float(lists.labels.max()), int(lists.lengths.max())
    )


def write_manifest(directory, num_features, splits, **changes):
    """Writes a manifest; `changes` replace what its JSON says at the top."""
    text = manifest.Manifest(num_features, None, {}, splits).as_json()
    content = {**json.loads(text), **changes}
    with open(os.path.join(directory, manifest.FILE_NAME), "w") as file:
        json.dump(content, file)
