"""Log entries as Promtail and Alloy send them: Loki's push protocol, as Protocol Buffers or JSON.

An entry that cannot be stored is counted; the others of its request are stored.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import orjson

from moirae.errors import RequestRejected
from moirae.server.protocols.messages import (
    BYTES,
    INT32,
    INT64,
    OPTIONAL,
    REPEATED,
    STRING,
    Field,
    make_message_classes,
)
from moirae.server.protocols.pushed_rows import PushedRows, Selectors, find_streams

MAX_ENTRIES = 100_000  # of a request; its streams count as well
_MAX_LABELS = 200
_MAX_LABEL_BYTES = 16 << 10  # of the labels of a stream; also the characters of their text
_MAX_ENTRY_BYTES = 1 << 20
_MAX_SECONDS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OWN_FIELDS = frozenset({"ts", "line"})  # a label of the name gets a prefix
_METADATA = "metadata."  # begins the names of fields of structured metadata
_LABEL = re.compile(r'\s*([^\s=,{}"]+)\s*=\s*("(?:[^"\\]|\\.)*"|`[^`]*`)\s*(?:,|$)', re.DOTALL)
_NANOSECONDS = re.compile(r"[0-9]{1,19}")

_MESSAGES: dict[str, list[Field]] = {
    "PushRequest": [("streams", 1, BYTES, REPEATED)],
    "Stream": [("labels", 1, STRING, OPTIONAL), ("entries", 2, BYTES, REPEATED)],
    "Timestamp": [("seconds", 1, INT64, OPTIONAL), ("nanos", 2, INT32, OPTIONAL)],
    "LabelPair": [("name", 1, STRING, OPTIONAL), ("value", 2, STRING, OPTIONAL)],
    "Entry": [
        ("timestamp", 1, "Timestamp", OPTIONAL),
        ("line", 2, STRING, OPTIONAL),
        ("metadata", 3, "LabelPair", REPEATED),
    ],
}


class _LogEntry(NamedTuple):
    """A line at a time in nanoseconds, with its structured metadata."""

    nanoseconds: int
    line: str
    metadata: Mapping[str, str]


class LokiReader:
    """Reads requests. `selectors`: by stream, what it takes by labels; none: all."""

    def __init__(self, selectors: Mapping[str, Selectors]) -> None:
        self._selectors = selectors

    def read(self, content: bytes, is_json: bool) -> PushedRows:
        """The entries of a request. Raises `RequestRejected` if the request cannot be read."""
        pushed = PushedRows()
        streams = _list_json_streams(content) if is_json else _list_streams(content)
        count = 0
        for stream_labels, entries in streams:
            count += 1 + len(entries)
            if count > MAX_ENTRIES:
                raise RequestRejected(413, f"too many entries: limit {MAX_ENTRIES} per request")
            labels = _read_labels(stream_labels)
            if labels is None:
                pushed.skipped["", "invalid labels"] += len(entries)
                continue
            self._add(labels, entries, pushed)
        return pushed

    def _add(self, labels: Mapping[str, str], entries: Sequence[Any], pushed: PushedRows) -> None:
        names = find_streams(self._selectors, labels)
        if not names:
            pushed.skipped["", "unmatched"] += len(entries)
            return
        fields = {
            f"label_{name}" if name in _OWN_FIELDS or name.startswith(_METADATA) else name: value
            for name, value in labels.items()
        }
        prefix = orjson.dumps(fields)[:-1] + b"," if fields else b"{"
        for content in entries:
            entry = _read_entry(content)
            ts = None if entry is None else _write_time(entry.nanoseconds)
            if entry is None or ts is None:
                pushed.skipped["", "invalid records" if entry is None else "invalid times"] += 1
                continue
            row = {f"{_METADATA}{name}": value for name, value in entry.metadata.items()}
            row |= {"ts": ts, "line": entry.line}
            content = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
            pushed.add(names, prefix + content[1:])


def _list_streams(content: bytes) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The labels of each stream of a request, and its entries, not parsed yet."""
    messages, error = _load_messages()
    try:
        request = messages["PushRequest"].FromString(content)
    except error as reason:
        raise RequestRejected(400, "the body is no push request of Loki") from reason
    for stream_content in request.streams:
        try:
            stream = messages["Stream"].FromString(stream_content)
        except error as reason:
            raise RequestRejected(400, "the body is no push request of Loki") from reason
        yield stream.labels, stream.entries


def _list_json_streams(content: bytes) -> Iterator[tuple[Any, Sequence[Any]]]:
    try:
        streams = orjson.loads(content)["streams"]
        for stream in streams:
            labels, values = stream["stream"], stream["values"]
            if not isinstance(labels, dict) or not isinstance(values, list):
                raise TypeError
            yield labels, values
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RequestRejected(400, "the body is no push request of Loki") from error


def _read_labels(labels: Any) -> Mapping[str, str] | None:
    """The labels of a stream, from an object or a text such as `{app="a"}`; None: not valid."""
    if isinstance(labels, str):
        labels = _parse_labels(labels)
    if labels is None or not 0 < len(labels) <= _MAX_LABELS:
        return None
    if not all(name and isinstance(value, str) for name, value in labels.items()):
        return None
    if sum(len(name) + len(value) for name, value in labels.items()) > _MAX_LABEL_BYTES:
        return None
    return {name: value for name, value in labels.items() if value}


def _parse_labels(text: str) -> dict[str, str] | None:
    text = text.strip()
    if len(text) > _MAX_LABEL_BYTES or not (text.startswith("{") and text.endswith("}")):
        return None
    content, position, labels = text[1:-1].strip(), 0, {}
    while position < len(content):
        match = _LABEL.match(content, position)
        if match is None or match[1] in labels:
            return None
        try:
            # The escapes of Go's quoted texts are those of Python's.
            quoted = match[2]
            value = quoted[1:-1] if quoted[0] == "`" else ast.literal_eval(quoted)
            value.encode()  # no half of a pair of surrogates
        except (ValueError, SyntaxError):
            return None
        labels[match[1]] = value
        position = match.end()
    return labels


def _read_entry(content: Any) -> _LogEntry | None:
    """An entry, as bytes or as it is in JSON; None: it cannot be stored."""
    if not isinstance(content, bytes):
        return _read_json_entry(content)
    messages, error = _load_messages()
    try:
        if len(content) > _MAX_ENTRY_BYTES:
            return None
        entry = messages["Entry"].FromString(content)
    except error:
        return None
    nanoseconds = entry.timestamp.seconds * 1_000_000_000 + entry.timestamp.nanos
    metadata = {pair.name: pair.value for pair in entry.metadata}
    return _LogEntry(nanoseconds, entry.line, metadata)


def _read_json_entry(content: Any) -> _LogEntry | None:
    if not isinstance(content, list) or not 2 <= len(content) <= 3:
        return None
    nanoseconds, line = content[0], content[1]
    metadata = content[2] if len(content) == 3 else {}
    if not (isinstance(nanoseconds, str) and _NANOSECONDS.fullmatch(nanoseconds)):
        return None
    if not isinstance(line, str) or len(line) > _MAX_ENTRY_BYTES or not isinstance(metadata, dict):
        return None
    if not all(isinstance(value, str) for value in metadata.values()):
        return None
    return _LogEntry(int(nanoseconds), line, metadata)


def _write_time(nanoseconds: int) -> str | None:
    """A time in microseconds; None if it is absent, or before 1970 or after 9999."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    if nanoseconds == 0 or not 0 <= seconds < _MAX_SECONDS:
        return None
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}.{rest // 1000:06d}Z"


@cache
def _load_messages() -> tuple[Mapping[str, Any], type[Exception]]:
    """The classes of messages, and what parsing raises. The library is loaded at first use."""
    from google.protobuf.message import DecodeError

    return make_message_classes("moirae.loki", _MESSAGES), DecodeError
