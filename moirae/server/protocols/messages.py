"""Classes of messages of Protocol Buffers from a list of their fields.

A request is read part by part, so that a small body does not become millions of objects: its parts
are declared as bytes here, and counted before they are parsed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# Types and labels of fields, as numbered in `descriptor.proto`.
DOUBLE = 1
INT64 = 3
INT32 = 5
STRING = 9
BYTES = 12
UINT32 = 13
OPTIONAL = 1
REPEATED = 3
_MESSAGE = 11

Field = tuple[str, int, int | str, int]
"""Name, number, type (a name: of a message) and label."""


def make_message_classes(package: str, declared: Mapping[str, Sequence[Field]]) -> dict[str, Any]:
    """Classes by name. The library is loaded with the first request."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    for message_name, fields in declared.items():
        message = file.message_type.add(name=message_name)
        for name, number, kind, label in fields:
            field = message.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type = _MESSAGE
                field.type_name = f".{package}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in declared
    }
