"""JSON documents as a stream of bytes: the records inside them, one after the other. No I/O."""

import re
from collections.abc import Iterator, Sequence

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
_MAX_WAITING_BYTES = 16 << 20  # of records that wait for fields around them


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
    without any. It leads through each element of arrays on its way. A record is not validated:
    whoever parses it does. Documents may be divided by commas, or by the record separators of RFC
    7464; a bracket that closes nothing is a record.
    `outer`: paths to values of a document beside the records: records get them as first fields.
    """

    def __init__(self, records: str | None, outer: Sequence[str] = ()) -> None:
        self._path = records
        self._outer_fields = _OuterFields(outer) if outer else None
        self._outer_path: str | None = None  # of the value that is being read
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
            if self._outer_fields is not None:
                yield from self._add_outer_fields(self._outer_fields, record)
            elif record is not None:
                yield record

    def _add_outer_fields(self, outer: "_OuterFields", value: bytes | None) -> Iterator[bytes]:
        """Records with the fields around them. `value`: a record or such a field, if one ended."""
        if value is not None and self._outer_path is not None:
            outer.put(self._outer_path, value)
            self._outer_path = None
        elif value is not None:
            outer.wait(value)
        is_document_read = self._start is None and len(self._containers) < self._document_depth()
        yield from outer.take_complete(is_document_read=is_document_read)

    def _document_depth(self) -> int:
        """How many containers are open inside a document, at least."""
        is_in_array = bool(self._containers) and self._containers[0].opening == b"["
        return 2 if is_in_array else 1

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
        if self._begin_outer_field():
            return token
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

    def _begin_outer_field(self) -> bool:
        """Whether the value that begins now is a field of the document that records get."""
        if self._outer_fields is None or b"[" in (c.opening for c in self._containers[1:]):
            return False
        path = self._find_path()
        if path not in self._outer_fields.paths:
            return False
        self._outer_path = path
        return True

    def _open(self, token: bytes, start: int) -> None:
        if self._begin_outer_field():
            self._start, self._depth, self._cut = start, 1, b""
            return
        if self._is_record_place() and (token == b"{" or self._is_in_array()):
            self._start, self._depth, self._cut = start, 1, b""
            return
        if len(self._containers) >= _MAX_DEPTH:
            raise SourceDamaged("the JSON document is nested too deeply")
        holds_records = token == b"[" and self._is_record_place()
        self._containers.append(_Container(token, holds_records))

    def _is_record_place(self) -> bool:
        """Whether a value that begins now is a record, or the array of records."""
        if self._is_in_array():
            return True
        if self._path is None:
            return not self._containers
        is_place = self._find_path() == self._path
        self._has_found_path |= is_place
        return is_place

    def _find_path(self) -> str:
        """The path to the value that begins now, inside its document; of arrays, any element."""
        objects = [container for container in self._containers if container.opening == b"{"]
        return ".".join(container.key or "" for container in objects)

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


class _OuterFields:
    """Fields of a document that its records get; records wait until they are read."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = frozenset(paths)
        self._values: dict[str, bytes] = {}
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def put(self, path: str, value: bytes) -> None:
        self._values[path] = value

    def wait(self, record: bytes) -> None:
        """Let a record wait. Raises `SourceDamaged` if too many do."""
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        if self._waiting_bytes > _MAX_WAITING_BYTES:
            missing = ", ".join(sorted(self.paths - self._values.keys()))
            raise SourceDamaged(
                f"{missing} (`outer`) does not come within {_MAX_WAITING_BYTES >> 20} MiB of records"
            )

    def take_complete(self, *, is_document_read: bool) -> Iterator[bytes]:
        """The records of which all fields are read, or whose document is."""
        if is_document_read or self._values.keys() == self.paths:
            for record in self._waiting:
                yield self._add_to(record)
            self._waiting, self._waiting_bytes = [], 0
        if is_document_read:
            self._values.clear()

    def _add_to(self, record: bytes) -> bytes:
        if not record.startswith(b"{") or not self._values:
            return record
        fields = b",".join(
            orjson.dumps(path) + b":" + value for path, value in self._values.items()
        )
        rest = record[1:].lstrip()
        separator = b"" if rest.startswith(b"}") else b","
        return b"{" + fields + separator + rest
