"""Bodies of ingest requests: format, decompression and conversion to lines. No I/O.

Rows are not validated here: the archive does that, and stores invalid rows as dead letters.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from archiver.formats import Format, FormatName, media_format, media_types
from archiver.ingest import dump_json, load_json
from moirae.errors import RequestRejected
from moirae.server.responses import read_media_type

_GZIP_WINDOW_BITS = 31  # zlib: 32 KiB window with gzip header and checksum
_MAX_GZIP_MEMBERS = 64
_TEXT_MEDIA_TYPE = "text/plain"  # records in the format that the stream declares
_MAX_ERROR_LENGTH = 100  # characters of a parser's message


def parse_content_headers(
    headers: Mapping[str, str], declared: Format
) -> tuple[Format, str | None]:
    """The format of the body, and its compression. Raises `RequestRejected`.

    `headers` finds names in lower case. `declared`: the format of the stream.
    """
    media_type = read_media_type(headers)
    name = declared.name if media_type == _TEXT_MEDIA_TYPE else media_format(media_type)
    if name is None:
        supported = ", ".join([*media_types(), _TEXT_MEDIA_TYPE])
        raise RequestRejected(415, f"unsupported Content-Type: use one of {supported}")
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "zstd"):
        raise RequestRejected(415, "unsupported Content-Encoding: use gzip, zstd or none")
    body_format = declared if name == declared.name else Format(name)
    return body_format, None if encoding == "identity" else encoding


def decompress(body: bytes, compression: str, max_bytes: int) -> bytes:
    """The content of a compressed body. Raises as `_decompress_gzip`."""
    if compression == "gzip":
        return _decompress_gzip(body, max_bytes)
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
            content: bytes = stream.read(max_bytes + 1)
    except OSError as error:
        raise RequestRejected(400, "the body is not valid zstd data") from error
    if len(content) > max_bytes:
        raise RequestRejected(413, f"decompressed body too large: limit {max_bytes} bytes")
    return content


def _decompress_gzip(body: bytes, max_bytes: int) -> bytes:
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


def split_rows(body_format: Format, content: bytes) -> tuple[bytes, int]:
    """The content as it is stored, and about how many rows it has: JSON has one on each line.

    Raises `RequestRejected` for content without rows and for a body that is not valid JSON.
    """
    if body_format.name == "json" and body_format.records is None:
        lines = _split_json(content)
        row_count = len(lines)
        content = b"".join(lines)
    elif body_format.name == "json":
        row_count = len(_parse_json(content)) if content.strip() else 0
    else:
        row_count = sum(map(bool, map(bytes.strip, content.split(b"\n"))))
        if body_format.has_header:
            row_count -= 1
    if row_count < 1:
        raise RequestRejected(400, "the body contains no rows")
    return content, row_count


def stored_format(body_format: Format) -> FormatName:
    """The format in which `split_rows` stores a body."""
    if body_format.name == "json" and body_format.records is None:
        return "jsonl"
    return body_format.name


def _split_json(content: bytes) -> list[bytes]:
    return [dump_json(row) + b"\n" for row in _parse_json(content)]


def _parse_json(content: bytes) -> list[Any]:
    """The rows of a JSON value or list."""
    try:
        value = load_json(content)
    except ValueError as error:
        message = str(error)[:_MAX_ERROR_LENGTH]
        raise RequestRejected(400, f"the body is not valid JSON: {message}") from None
    return value if isinstance(value, list) else [value]
