"""JSON documents as a stream of bytes: the records inside them, one after the other. No I/O."""

import re
from collections.abc import Iterator

import orjson

from archiver.errors import SourceDamaged
from archiver.ingest.decoding.records import MAX_LINE_BYTES

# Blanks, record separators, and the byte order marks of files that were joined.
_BETWEEN = rb"[ \t\r\n\x1e]*(?:\xef\xbb\xbf[ \t\r\n\x1e]*)*"
_TOKEN = re.compile(
    _BETWEEN + rb'(?:("[^"\\]*(?:\\.[^"\\]*)*")|([{}\[\]:,])|([^ \t\r\n\x1e"{}\[\]:,]+))',
    re.DOTALL,
)
_BLANKS = re.compile(_BETWEEN)
_CLOSING = {b"{": b"}", b"[": b"]"}
_MAX_DEPTH = 500  # around records


class _Container:
    """An object or array around records. `holds_records`: its elements are records."""

    def __init__(self, opening: bytes, holds_records: bool) -> None:
        self.opening = opening
        self.holds_records = holds_records
        self.key: str | None = None  # of the value that is being read


class DocumentScanner:
    """Finds the records of documents, of which one or more follow each other.

    Without a path, a record is a document, or an element of one that is an array. `records`: names
    of objects, divided by points, that lead to an array of records, or to one; null is an array
    without any. A record is not validated: whoever parses it does. Documents may be divided by
    commas, or by the record separators of RFC 7464; a bracket that closes nothing is a record.
    """

    def __init__(self, records: str | None) -> None:
        self._path = records
        self._containers: list[_Container] = []
        self._buffer = b""
        self._position = 0
        self._last_text = b""
        self._has_found_path = False
        # Of the record that is being read: its start in the buffer, and its open brackets.
        self._start: int | None = None
        self._depth = 0
        self._cut = b""

    def scan(self, block: bytes) -> Iterator[bytes]:
        """The records that end in the next bytes. Raises `SourceDamaged` if these are not JSON."""
        self._buffer = self._buffer[self._position :] + block
        if self._start is not None:
            self._start -= self._position
        self._position = 0
        yield from self._scan_tokens(is_last=False)
        self._discard()

    def finish(self, *, is_damaged: bool = False) -> Iterator[bytes]:
        """The last records. Raises `SourceDamaged` if a document is not complete."""
        yield from self._scan_tokens(is_last=True)
        if is_damaged:
            return
        if self._start is not None or self._containers:
            raise SourceDamaged("not JSON: the document ends early")
        if self._path is not None and not self._has_found_path:
            raise SourceDamaged(f"the document has no records at {self._path}")

    def _scan_tokens(self, *, is_last: bool) -> Iterator[bytes]:
        while True:
            match = _TOKEN.match(self._buffer, self._position)
            if match is None or (match.end() == len(self._buffer) and match[3] and not is_last):
                self._check_rest(is_last)
                return
            start = match.start(match.lastindex or 0)
            self._position = match.end()
            record = self._take(match[match.lastindex or 0], start)
            if record is not None:
                yield record

    def _check_rest(self, is_last: bool) -> None:
        """Raise `SourceDamaged` if what remains of the buffer is no beginning of a token."""
        match = _BLANKS.match(self._buffer, self._position)
        assert match is not None
        rest = len(self._buffer) - match.end()
        if rest and (is_last or rest > MAX_LINE_BYTES):
            fact = "the document ends within a text" if is_last else "a text is too long"
            raise SourceDamaged(f"not JSON: {fact}")

    def _take(self, token: bytes, start: int) -> bytes | None:
        """Process a token; the record that ends with it, if any."""
        if self._start is not None:
            if token in (b"{", b"["):
                self._depth += 1
            elif token in (b"}", b"]"):
                self._depth -= 1
            return None if self._depth else self._end_record()
        if token in (b"{", b"["):
            self._open(token, start)
            return None
        if token in (b"}", b"]"):
            if not self._containers or _CLOSING[self._containers[-1].opening] != token:
                return token
            self._containers.pop()
            return None
        if token == b":":
            self._set_key()
            return None
        if token == b",":
            if self._containers:
                self._containers[-1].key = None
            return None
        return self._take_scalar(token)

    def _take_scalar(self, token: bytes) -> bytes | None:
        inside = self._containers[-1] if self._containers else None
        if inside is not None and inside.opening == b"{" and inside.key is None:
            self._last_text = token
            return None
        if not self._is_record_place():
            return None
        is_no_array = token == b"null" and self._path is not None and not self._is_in_array()
        return None if is_no_array else token

    def _set_key(self) -> None:
        try:
            key = orjson.loads(self._last_text)
        except orjson.JSONDecodeError:
            key = None
        if not self._containers or not isinstance(key, str):
            raise SourceDamaged("not JSON: unexpected :")
        self._containers[-1].key = key

    def _open(self, token: bytes, start: int) -> None:
        if self._is_record_place() and (token == b"{" or self._is_in_array()):
            self._start, self._depth, self._cut = start, 1, b""
            return
        if len(self._containers) >= _MAX_DEPTH:
            raise SourceDamaged("the JSON document is nested too deeply")
        holds_records = token == b"[" and self._is_record_place()
        self._containers.append(_Container(token, holds_records))

    def _is_record_place(self) -> bool:
        """Whether a value that begins now is a record, or the array of records."""
        containers = self._containers
        if self._is_in_array():
            return True
        if self._path is None:
            return not containers
        if containers and containers[0].opening == b"[":
            containers = containers[1:]
        is_place = ".".join(container.key or "" for container in containers) == self._path
        self._has_found_path |= is_place
        return is_place

    def _is_in_array(self) -> bool:
        """Whether the value that begins now is an element of the array of records."""
        return bool(self._containers) and self._containers[-1].holds_records

    def _end_record(self) -> bytes:
        assert self._start is not None
        record = self._cut + self._buffer[self._start : self._position]
        self._start = None
        return record[: MAX_LINE_BYTES + 1]

    def _discard(self) -> None:
        """Drop what is scanned, except the beginning of a record that does not exceed its limit."""
        if self._start is None:
            return
        self._cut = (self._cut + self._buffer[self._start : self._position])[: MAX_LINE_BYTES + 1]
        self._start = self._position
