"""Relations read from object storage; the object is a fake."""

from pathlib import Path
from typing import Any

import pytest

from archiver.errors import SourceUnreachable
from archiver.storage import ObjectPath
from moirae.config.streams import Relation
from moirae.errors import MoiraeError
from moirae.live.sources import relation_object
from moirae.live.sources.relation_object import ObjectRelationReader


class FakeObject:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content: bytes | None = None
        self.reads = 0
        monkeypatch.setattr(ObjectPath, "version", lambda _: self.version())
        monkeypatch.setattr(relation_object, "read_content", self.read)

    def version(self) -> str:
        if self.content is None:
            raise FileNotFoundError
        return f"etag {hash(self.content)}"

    def read(self, _: Any) -> bytes:
        self.reads += 1
        assert self.content is not None
        return self.content


def _make_reader() -> ObjectRelationReader:
    declared = {
        "columns": {"host": "string"},
        "key": ["host"],
        "source": {"file": "s3://bucket/hosts.csv"},
    }
    relation = Relation.model_validate(declared)
    return ObjectRelationReader("hosts", relation, relation.source)  # type: ignore[arg-type]


def test_object_is_read_when_its_version_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = FakeObject(monkeypatch)
    reader = _make_reader()
    with pytest.raises(MoiraeError, match="does not exist"):
        reader.fetch("")
    stored.content = b"host\na"  # an object needs no end of its last line
    first = reader.fetch("")
    assert first is not None and first.rows == [{"host": "a"}]
    assert reader.fetch(first.fingerprint) is None
    stored.content = b"host\na\nb\n"
    second = reader.fetch(first.fingerprint)
    assert second is not None and len(second.rows) == 2


def test_invalid_object_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = FakeObject(monkeypatch)
    stored.content = b"site\noslo\n"
    reader = _make_reader()
    for _ in range(3):
        with pytest.raises(MoiraeError, match=r"s3://bucket/hosts.csv:1: missing columns"):
            reader.fetch("")
    assert stored.reads == 1


def test_storage_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = FakeObject(monkeypatch)
    stored.content = b""

    def fail(path: Path) -> bytes:
        raise SourceUnreachable("s3://bucket/hosts.csv: timeout")

    monkeypatch.setattr(relation_object, "read_content", fail)
    with pytest.raises(MoiraeError, match="timeout"):
        _make_reader().fetch("")
