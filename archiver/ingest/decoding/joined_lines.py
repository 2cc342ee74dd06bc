"""Records of log lines that belong together: stack traces, and parts of long lines. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import re2

from archiver.ingest.decoding.records import MAX_LINE_BYTES, MAX_RECORD_LINES

_CRI_LINE = re2.compile(rb"^(\S+) (stdout|stderr) ([FP])(?::\S*)?(?: ((?s:.*)))?$")

NumberedLine = tuple[int, bytes]


@dataclass
class _JoinedRecord:
    """Lines of one record. What exceeds its limits is dropped: the record is refused for it."""

    number: int
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, part: bytes) -> None:
        if self.size <= MAX_LINE_BYTES and len(self.parts) <= MAX_RECORD_LINES:
            self.parts.append(part)
            self.size += len(part) + 1


def frame_by_start(lines: Iterator[NumberedLine], starts_with: str) -> Iterator[NumberedLine]:
    """Records that begin with a line that matches a pattern; lines before the first are one."""
    is_start = re2.compile(f"^(?:{starts_with})".encode()).match
    record: _JoinedRecord | None = None
    for number, line in lines:
        if is_start(line) is not None:
            if record is not None:
                yield from _emit(record)
            record = _JoinedRecord(number)
        elif record is None:
            if not line.strip():
                continue
            record = _JoinedRecord(number)
        record.add(line)
    if record is not None:
        yield from _emit(record)


def _emit(record: _JoinedRecord) -> Iterator[NumberedLine]:
    text = b"\n".join(record.parts).rstrip()
    if text:
        yield record.number, text


def join_cri(lines: Iterator[NumberedLine]) -> Iterator[NumberedLine]:
    """Lines of a container runtime; parts of a line are joined, by stream."""
    partial: dict[bytes, _JoinedRecord] = {}
    beginnings: dict[bytes, bytes] = {}
    for number, line in lines:
        match = _CRI_LINE.match(line)
        if match is None:
            if line.strip():
                yield number, line
            continue
        time, stream, flag, message = match.groups()
        if flag == b"F" and stream not in partial:
            yield number, line
            continue
        if stream not in partial:
            partial[stream] = _JoinedRecord(number)
            beginnings[stream] = b"%b %b F " % (time, stream)
        partial[stream].add(message or b"")
        if flag == b"F":
            record = partial.pop(stream)
            yield record.number, beginnings.pop(stream) + b"".join(record.parts)
    for stream, record in sorted(partial.items(), key=lambda item: item[1].number):
        yield record.number, beginnings[stream] + b"".join(record.parts)


def join_docker(lines: Iterator[NumberedLine]) -> Iterator[NumberedLine]:
    """Lines of Docker's JSON file; parts of a line, which have no line end, are joined."""
    partial: dict[object, _JoinedRecord] = {}
    beginnings: dict[object, dict[str, object]] = {}
    for number, line in lines:
        if not line.strip():
            continue
        entry = _parse_entry(line)
        if entry is None:
            yield number, line
            continue
        log, stream = entry["log"], entry.get("stream")
        is_last = log.endswith("\n")
        if is_last and stream not in partial:
            yield number, line
            continue
        if stream not in partial:
            partial[stream] = _JoinedRecord(number)
            beginnings[stream] = entry
        partial[stream].add(log.encode("utf-8", "surrogatepass"))
        if is_last:
            yield _join_entries(partial.pop(stream), beginnings.pop(stream))
    for stream, record in sorted(partial.items(), key=lambda item: item[1].number):
        yield _join_entries(record, beginnings[stream])


def find_joined_end(content: bytes, format_name: str) -> int:
    """How many bytes of some lines of `cri` or `docker` end before a line that later ones continue.

    A part that is never continued does not hold others back for more than the length of a record.
    """
    unfinished: set[object] = set()
    offset = end = 0
    for line in content.split(b"\n")[:-1]:
        offset += len(line) + 1
        part = _cri_part(line) if format_name == "cri" else _docker_part(line)
        if part is not None:
            stream, is_last = part
            (unfinished.discard if is_last else unfinished.add)(stream)
        if not unfinished:
            end = offset
    return end if offset - end <= MAX_LINE_BYTES else offset


def _cri_part(line: bytes) -> tuple[object, bool] | None:
    match = _CRI_LINE.match(line)
    return None if match is None else (match[2], match[3] == b"F")


def _docker_part(line: bytes) -> tuple[object, bool] | None:
    entry = _parse_entry(line)
    return None if entry is None else (entry.get("stream"), entry["log"].endswith("\n"))


def _parse_entry(line: bytes) -> dict | None:  # type: ignore[type-arg]
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    is_entry = isinstance(entry, dict) and isinstance(entry.get("log"), str)
    return entry if is_entry and isinstance(entry.get("stream"), str | None) else None


def _join_entries(record: _JoinedRecord, first: dict[str, object]) -> NumberedLine:
    log = b"".join(record.parts).decode("utf-8", "replace")
    return record.number, orjson.dumps({**first, "log": log})
