"""Format, decompression and row count of posted bodies."""

import gzip

import pyarrow as pa
import pytest

from archiver.formats import CSV, JSONL, Format
from moirae.errors import RequestRejected
from moirae.server.request_body import decompress, parse_content_headers, split_rows


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "application/json; charset=utf-8"}, (Format("json"), None)),
        ({"content-type": "Text/CSV"}, (CSV, None)),
        ({"content-type": "application/x-ndjson", "content-encoding": "GZIP"}, (JSONL, "gzip")),
        ({"content-type": "text/plain"}, (Format("combined"), None)),
        ({"content-type": "application/jsonl", "content-encoding": "identity"}, (JSONL, None)),
    ],
)
def test_format_follows_content_headers(
    headers: dict[str, str], expected: tuple[Format, str | None]
) -> None:
    assert parse_content_headers(headers, Format("combined")) == expected


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "unsupported Content-Type: use one of application/json, "),
        ({"content-type": "text/html"}, "unsupported Content-Type"),
        (
            {"content-type": "text/csv", "content-encoding": "br"},
            "unsupported Content-Encoding: use gzip, zstd or none",
        ),
    ],
)
def test_unsupported_content_headers_are_rejected(headers: dict[str, str], message: str) -> None:
    with pytest.raises(RequestRejected, match=message) as rejection:
        parse_content_headers(headers, JSONL)
    assert rejection.value.status == 415


def test_gzip_members_are_joined() -> None:
    assert decompress(gzip.compress(b"a\n") + gzip.compress(b"b\n"), "gzip", 4) == b"a\nb\n"


def test_zstd_is_decompressed_up_to_the_limit() -> None:
    body = pa.compress(b"a\n", "zstd", asbytes=True)
    assert decompress(body, "zstd", 2) == b"a\n"
    with pytest.raises(RequestRejected, match="decompressed body too large"):
        decompress(body, "zstd", 1)
    with pytest.raises(RequestRejected, match="not valid zstd data"):
        decompress(b"a", "zstd", 2)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"not gzip", 400, "not valid gzip data"),
        (gzip.compress(b"a" * 100)[:-4], 400, "the gzip data is truncated"),
        (gzip.compress(b"a" * 101), 413, "decompressed body too large: limit 100 bytes"),
        (gzip.compress(b"a" * 60) * 2, 413, "decompressed body too large"),
        (gzip.compress(b"") * 65, 400, "more than 64 members"),
    ],
    # Compressed data holds the time: it must not become part of the names of the tests.
    ids=["not gzip", "truncated", "too large", "members too large", "too many members"],
)
def test_bad_gzip_is_rejected(body: bytes, status: int, message: str) -> None:
    with pytest.raises(RequestRejected, match=message) as rejection:
        decompress(body, "gzip", 100)
    assert rejection.value.status == status


def test_json_rows_are_written_one_per_line() -> None:
    assert split_rows(Format("json"), b'[{"a": 1},\n{"a": 2}, 5]') == (b'{"a":1}\n{"a":2}\n5\n', 3)
    assert split_rows(Format("json"), b'{"a":\n1}') == (b'{"a":1}\n', 1)


def test_lines_are_kept_as_posted_and_blank_ones_not_counted() -> None:
    assert split_rows(Format("jsonl"), b'{"a": 1}\n\n \n{broken') == (b'{"a": 1}\n\n \n{broken', 2)
    assert split_rows(Format("csv"), b"a,b\n1,2\n\n3,4\n") == (b"a,b\n1,2\n\n3,4\n", 2)


@pytest.mark.parametrize(
    ("body_format", "content"), [("json", b"[]"), ("jsonl", b"\n \n"), ("csv", b"a,b\n")]
)
def test_body_without_rows_is_rejected(body_format: str, content: bytes) -> None:
    with pytest.raises(RequestRejected, match="the body contains no rows"):
        split_rows(Format(body_format), content)  # type: ignore[arg-type]


def test_invalid_json_is_rejected_with_the_reason_of_the_parser() -> None:
    with pytest.raises(RequestRejected, match=r"the body is not valid JSON: .*line 1"):
        split_rows(Format("json"), b'{"a": ')
