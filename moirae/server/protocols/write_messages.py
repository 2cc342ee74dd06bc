"""Messages of remote write 1.0 that are read: its fields are a format.

Series, exemplars and histograms stay bytes: a request is read series by series, so that a small
body does not become millions of objects.
"""

from functools import cache
from typing import Any, NamedTuple

# Types and labels of fields, as numbered in `descriptor.proto`.
_DOUBLE = 1
_INT64 = 3
_STRING = 9
_MESSAGE = 11
_BYTES = 12
_OPTIONAL = 1
_REPEATED = 3
_PACKAGE = "moirae.remote_write"
# By message: name, number, type and label of its fields.
_MESSAGES: dict[str, list[tuple[str, int, int | str, int]]] = {
    "WriteRequest": [("timeseries", 1, _BYTES, _REPEATED)],
    "TimeSeries": [
        ("labels", 1, "Label", _REPEATED),
        ("samples", 2, "Sample", _REPEATED),
        ("exemplars", 3, _BYTES, _REPEATED),
        ("histograms", 4, _BYTES, _REPEATED),
    ],
    "Label": [("name", 1, _STRING, _OPTIONAL), ("value", 2, _STRING, _OPTIONAL)],
    "Sample": [("value", 1, _DOUBLE, _OPTIONAL), ("timestamp", 2, _INT64, _OPTIONAL)],
}


class WriteMessages(NamedTuple):
    """The classes of messages. `error`: what parsing raises."""

    request: Any
    series: Any
    error: type[Exception]


@cache
def load_messages() -> WriteMessages:
    """The classes of messages. The library is loaded with the first request."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="moirae/remote_write.proto", package=_PACKAGE, syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message_name)
        for name, number, kind, label in fields:
            field = declared.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type = _MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    def load(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))

    return WriteMessages(load("WriteRequest"), load("TimeSeries"), message.DecodeError)
