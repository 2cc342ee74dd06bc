"""Format, decompression and row count of posted bodies."""

import gzip

import pytest

from moirae.errors import RequestRejected
from moirae.server.request_body import decompress, parse_content_headers, split_rows


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "application/json; charset=utf-8"}, ("json", False)),
        ({"content-type": "Text/CSV"}, ("csv", False)),
        ({"content-type": "application/x-ndjson", "content-encoding": "GZIP"}, ("jsonl", True)),
        ({"content-type": "application/jsonl", "content-encoding": "identity"}, ("jsonl", False)),
    ],
)
def test_format_follows_content_headers(
    headers: dict[str, str], expected: tuple[str, bool]
) -> None:
    assert parse_content_headers(headers) == expected


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "unsupported Content-Type: use one of application/json, "),
        ({"content-type": "text/plain"}, "unsupported Content-Type"),
        (
            {"content-type": "text/csv", "content-encoding": "br"},
            "unsupported Content-Encoding: use gzip or none",
        ),
    ],
)
def test_unsupported_content_headers_are_rejected(headers: dict[str, str], message: str) -> None:
    with pytest.raises(RequestRejected, match=message) as rejection:
        parse_content_headers(headers)
    assert rejection.value.status == 415


def test_gzip_members_are_joined() -> None:
    assert decompress(gzip.compress(b"a\n") + gzip.compress(b"b\n"), 4) == b"a\nb\n"


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
        decompress(body, 100)
    assert rejection.value.status == status


def test_json_rows_are_written_one_per_line() -> None:
    assert split_rows("json", b'[{"a": 1},\n{"a": 2}, 5]') == (b'{"a":1}\n{"a":2}\n5\n', 3)
    assert split_rows("json", b'{"a":\n1}') == (b'{"a":1}\n', 1)


def test_lines_are_kept_as_posted_and_blank_ones_not_counted() -> None:
    assert split_rows("jsonl", b'{"a": 1}\n\n \n{broken') == (b'{"a": 1}\n\n \n{broken', 2)
    assert split_rows("csv", b"a,b\n1,2\n\n3,4\n") == (b"a,b\n1,2\n\n3,4\n", 2)


@pytest.mark.parametrize(
    ("body_format", "content"), [("json", b"[]"), ("jsonl", b"\n \n"), ("csv", b"a,b\n")]
)
def test_body_without_rows_is_rejected(body_format: str, content: bytes) -> None:
    with pytest.raises(RequestRejected, match="the body contains no rows"):
        split_rows(body_format, content)  # type: ignore[arg-type]


def test_invalid_json_is_rejected_with_the_reason_of_the_parser() -> None:
    with pytest.raises(RequestRejected, match=r"the body is not valid JSON: .*line 1"):
        split_rows("json", b'{"a": ')
