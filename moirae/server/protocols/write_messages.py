"""Messages of remote write 1.0 and 2.0 that are read: their fields are a format.

Series, exemplars and histograms stay bytes.
"""

from functools import cache
from typing import Any, NamedTuple

from moirae.server.protocols.messages import (
    BYTES,
    DOUBLE,
    INT64,
    OPTIONAL,
    REPEATED,
    STRING,
    UINT32,
    Field,
    make_message_classes,
)

_SAMPLE: list[Field] = [("value", 1, DOUBLE, OPTIONAL), ("timestamp", 2, INT64, OPTIONAL)]
_MESSAGES: dict[str, list[Field]] = {
    "WriteRequest": [("timeseries", 1, BYTES, REPEATED)],
    "TimeSeries": [
        ("labels", 1, "Label", REPEATED),
        ("samples", 2, "Sample", REPEATED),
        ("exemplars", 3, BYTES, REPEATED),
        ("histograms", 4, BYTES, REPEATED),
    ],
    "Label": [("name", 1, STRING, OPTIONAL), ("value", 2, STRING, OPTIONAL)],
    "Sample": _SAMPLE,
}
# Labels are numbers of symbols of the request. A symbol that is no UTF-8 spoils its series only.
_MESSAGES_2: dict[str, list[Field]] = {
    "Request": [("symbols", 4, BYTES, REPEATED), ("timeseries", 5, BYTES, REPEATED)],
    "TimeSeries": [
        ("labels_refs", 1, UINT32, REPEATED),
        ("samples", 2, "Sample", REPEATED),
        ("histograms", 3, BYTES, REPEATED),
        ("exemplars", 4, BYTES, REPEATED),
    ],
    "Sample": _SAMPLE,
}


class WriteMessages(NamedTuple):
    """The classes of messages of a version. `error`: what parsing raises."""

    request: Any
    series: Any
    error: type[Exception]


@cache
def load_messages() -> WriteMessages:
    """The classes of messages of version 1.0."""
    from google.protobuf.message import DecodeError

    classes = make_message_classes("moirae.remote_write", _MESSAGES)
    return WriteMessages(classes["WriteRequest"], classes["TimeSeries"], DecodeError)


@cache
def load_messages_2() -> WriteMessages:
    """The classes of messages of version 2.0."""
    from google.protobuf.message import DecodeError

    classes = make_message_classes("moirae.remote_write_2", _MESSAGES_2)
    return WriteMessages(classes["Request"], classes["TimeSeries"], DecodeError)
