"""The message `ExampleListWithContext`, as TensorFlow Serving defines it.

The original class is in the package tensorflow-serving-api; this one reads and writes
the same bytes, and needs only TensorFlow.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_PACKAGE, _NAME = "tfr_ext", "ExampleListWithContext"
_FIELDS = {"examples": 1, "context": 2}


def message_classes(
    package: str, messages: dict[str, dict[str, tuple[int, str]]], *others: Any
) -> dict[str, Any]:
    """Defines messages of a package, and returns their classes by name.

    Each field has a number and a type: 'string', a message of these, or one of the
    `others` with its package. '*' before a type says that there may be several.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto",
        package=package,
        syntax="proto3",
        dependency=[other.DESCRIPTOR.file.name for other in others],
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            kind, many = kind.lstrip("*"), kind.startswith("*")
            added = message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_STRING if kind == "string" else kinds.TYPE_MESSAGE,
            )
            if kind != "string":
                place = kind if "." in kind else f"{package}.{kind}"
                added.type_name = f".{place}"
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{name}")
        )
        for name in messages
    }


# Like `tensorflow_serving.apis.input_pb2.ExampleListWithContext`.
_TYPES = {"examples": "*tensorflow.Example", "context": "tensorflow.Example"}
_MESSAGES = {_NAME: {key: (number, _TYPES[key]) for key, number in _FIELDS.items()}}
ExampleListWithContext = message_classes(_PACKAGE, _MESSAGES, tf.train.Example)[_NAME]


def split_protos(protos: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the parts of serialised `ExampleListWithContext` protos `[batch]`.

    These are how many examples and contexts each has, `[batch, 2]`, its examples
    `[batch, list]`, and its contexts `[batch, contexts]`; empty at padding.
    """
    sizes, (examples, contexts) = tf.io.decode_proto(
        protos,
        message_type=f"{_PACKAGE}.{_NAME}",
        field_names=list(_FIELDS),
        output_types=[tf.string] * len(_FIELDS),
        descriptor_source=_descriptors(),
    )
    return sizes, examples, contexts


def other_kind(record: bytes) -> str:
    """Returns the end of a sentence that names another message of TensorFlow's."""
    try:
        message = tf.train.SequenceExample.FromString(record)
    except DecodeError:
        return ""
    if message.feature_lists.feature_list:
        return ". Found: a SequenceExample"
    # A sequence without lists has the same bytes as an example.
    names = {*message.context.feature}
    kind = "n Example in Example" if "serialized_examples" in names else " tf.Example"
    return f". Found: a{kind}" if names else ""


@functools.cache
def _descriptors() -> bytes:
    """Returns the description of the message that TensorFlow's op needs."""
    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="elwc.proto", package=_PACKAGE, syntax="proto3")
    message = file.message_type.add(name=_NAME)
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, number in _FIELDS.items():
        message.field.add(
            name=name,
            number=number,
            type=kinds.TYPE_BYTES,
            label=kinds.LABEL_REPEATED,
        )
    return b"bytes://" + files.SerializeToString()
