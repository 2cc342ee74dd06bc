"""Messages of remote write 1.0 that are read: its fields are a format.

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
    Field,
    make_message_classes,
)

_MESSAGES: dict[str, list[Field]] = {
    "WriteRequest": [("timeseries", 1, BYTES, REPEATED)],
    "TimeSeries": [
        ("labels", 1, "Label", REPEATED),
        ("samples", 2, "Sample", REPEATED),
        ("exemplars", 3, BYTES, REPEATED),
        ("histograms", 4, BYTES, REPEATED),
    ],
    "Label": [("name", 1, STRING, OPTIONAL), ("value", 2, STRING, OPTIONAL)],
    "Sample": [("value", 1, DOUBLE, OPTIONAL), ("timestamp", 2, INT64, OPTIONAL)],
}


class WriteMessages(NamedTuple):
    """The classes of messages. `error`: what parsing raises."""

    request: Any
    series: Any
    error: type[Exception]


@cache
def load_messages() -> WriteMessages:
    """The classes of messages."""
    from google.protobuf.message import DecodeError

    classes = make_message_classes("moirae.remote_write", _MESSAGES)
    return WriteMessages(classes["WriteRequest"], classes["TimeSeries"], DecodeError)
