"""Bodies of ingest requests: format, decompression and conversion to lines. No I/O.

Rows are not validated here: the archive does that, and stores invalid rows as dead letters.
"""

import zlib
from collections.abc import Mapping
from typing import Literal

import orjson

from moirae.errors import RequestRejected

BodyFormat = Literal["json", "jsonl", "csv"]
"""A JSON value or list of rows; one JSON row per line; CSV with a header line."""

_FORMATS_BY_MEDIA_TYPE: dict[str, BodyFormat] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}
_GZIP_WINDOW_BITS = 31  # zlib: 32 KiB window with gzip header and checksum
_MAX_GZIP_MEMBERS = 64
_MAX_ERROR_LENGTH = 100  # characters of a parser's message


def parse_content_headers(headers: Mapping[str, str]) -> tuple[BodyFormat, bool]:
    """The format of the body, and whether it is compressed. Raises `RequestRejected`.

    `headers` finds names in lower case.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _FORMATS_BY_MEDIA_TYPE:
        supported = ", ".join(_FORMATS_BY_MEDIA_TYPE)
        raise RequestRejected(415, f"unsupported Content-Type: use one of {supported}")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise RequestRejected(415, "unsupported Content-Encoding: use gzip or none")
    return _FORMATS_BY_MEDIA_TYPE[media_type], encoding == "gzip"


def decompress(body: bytes, max_bytes: int) -> bytes:
    """The content of a gzip body of one or more members.

    Raises `RequestRejected` for damaged data, and before more than `max_bytes` are allocated.
    """
    content = bytearray()
    for _ in range(_MAX_GZIP_MEMBERS):
        if not body:
            return bytes(content)
        member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        try:
            content += member.decompress(body, max_bytes + 1 - len(content))
        except zlib.error as error:
            raise RequestRejected(400, "the body is not valid gzip data") from error
        if len(content) > max_bytes:
            raise RequestRejected(413, f"decompressed body too large: limit {max_bytes} bytes")
        if not member.eof:
            raise RequestRejected(400, "the gzip data is truncated")
        body = member.unused_data
    raise RequestRejected(400, f"the gzip data has more than {_MAX_GZIP_MEMBERS} members")


def split_rows(body_format: BodyFormat, content: bytes) -> tuple[bytes, int]:
    """The content with one row per line, and the number of rows; CSV has its header line too.

    Raises `RequestRejected` for content without rows and for a body that is not valid JSON.
    """
    if body_format == "json":
        lines = _split_json(content)
        row_count = len(lines)
        content = b"".join(lines)
    else:
        row_count = sum(map(bool, map(bytes.strip, content.split(b"\n"))))
        if body_format == "csv":
            row_count -= 1  # the header line
    if row_count < 1:
        raise RequestRejected(400, "the body contains no rows")
    return content, row_count


def _split_json(content: bytes) -> list[bytes]:
    try:
        value = orjson.loads(content)
    except ValueError as error:
        message = str(error)[:_MAX_ERROR_LENGTH]
        raise RequestRejected(400, f"the body is not valid JSON: {message}") from None
    rows = value if isinstance(value, list) else [value]
    return [orjson.dumps(row) + b"\n" for row in rows]
