"""Records inside JSON documents, and the fields around them."""

from collections.abc import Sequence

import orjson
import pytest

from archiver.errors import SourceDamaged
from archiver.ingest.decoding.documents import DocumentScanner

CLOUDWATCH = (
    b'{"owner": {"id": [1, 2]}, "logGroup": "g", "filters": ["logGroup"],'
    b' "logEvents": [{"m": 1}, {"m": 2, "logGroup": "own"}, {}], "meta": {"v": 7}}'
)


def _scan(content: bytes, outer: Sequence[str], size: int) -> list[object]:
    scanner = DocumentScanner("logEvents", outer)
    records: list[bytes] = []
    for start in range(0, len(content), size):
        records += scanner.scan(content[start : start + size])
    records += scanner.finish()
    return list(map(orjson.loads, records))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_records_get_fields_before_and_after_them(size: int) -> None:
    outer = {"owner": {"id": [1, 2]}, "logGroup": "g", "meta.v": 7}
    assert _scan(CLOUDWATCH, list(outer), size) == [
        outer | {"m": 1},
        outer | {"m": 2, "logGroup": "own"},
        outer,
    ]


@pytest.mark.parametrize("size", [1, 1000])
def test_fields_of_one_document_are_not_those_of_the_next(size: int) -> None:
    documents = b'[{"g": 1, "logEvents": [{}]}, {"logEvents": [{}], "x": 2}]{"logEvents": [{}]}'
    assert _scan(documents, ["g", "x"], size) == [{"g": 1}, {"x": 2}, {}]


def test_path_leads_through_elements_of_arrays() -> None:
    scanner = DocumentScanner("logs.scopes.records")
    content = (
        b'{"logs": [{"scopes": [{"records": [{"n": 1}]}]}, {"scopes": {"records": [{"n": 2}]}}]}'
    )
    records = [*scanner.scan(content), *scanner.finish()]
    assert list(map(orjson.loads, records)) == [{"n": 1}, {"n": 2}]


def test_records_do_not_wait_without_limit() -> None:
    scanner = DocumentScanner("logEvents", ["logGroup"])
    block = b'{"logEvents": [' + b'{"m": "%s"},' % (b"x" * 900_000) * 20
    with pytest.raises(SourceDamaged, match=r"logGroup .* 16 MiB"):
        list(scanner.scan(block))
