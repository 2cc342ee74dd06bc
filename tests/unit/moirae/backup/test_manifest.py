"""The manifest of a backup."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from moirae.backup.manifest import (
    FileEntry,
    Manifest,
    RecordTotals,
    TableEntry,
    decode_copied,
    decode_manifest,
    encode_copied,
    encode_manifest,
)
from moirae.errors import BackupDamaged

FILE = FileEntry(10, "ab", rows=2, ids="0" * 31 + "3")


def make_manifest(day: int) -> Manifest:
    time = datetime(2026, 1, day, tzinfo=UTC)
    return Manifest(
        format=1,
        name=f"b{day}",
        workspace=UUID(int=1),
        generation=1,
        moirae="0.1.0",
        migration=25,
        started_at=time,
        taken_at=time,
        finished_at=time,
        previous=None,
        has_database=True,
        workspace_file="moirae.yaml",
        tables={
            "streams/s": TableEntry("stream", 4, 3, {"a": FILE, "b": FILE}),
            "events": TableEntry("events", 1, 9, {"c": FileEntry(5, "cd")}),
        },
        parts={"files.tar": FileEntry(7, "ef")},
        accounting={"s": RecordTotals(5, 4, 1, 0)},
        new_bytes=12,
    )


def test_manifest_is_stored() -> None:
    manifest = make_manifest(1)
    assert decode_manifest("b1", encode_manifest(manifest)) == manifest
    assert (manifest.rows, manifest.bytes, manifest.file_count) == (4, 32, 4)
    assert manifest.tables["streams/s"].row_ids.digest.endswith("6")
    assert manifest.to_summary()["appends"] == {"s": 3}


def test_damaged_manifest_is_named() -> None:
    content = encode_manifest(make_manifest(1))
    with pytest.raises(BackupDamaged, match="backup b1: its manifest is damaged: Invalid JSON"):
        decode_manifest("b1", content[:-5])
    with pytest.raises(BackupDamaged, match="damaged"):
        decode_manifest("b1", b"{}")


def test_manifest_of_a_later_format_is_refused() -> None:
    content = encode_manifest(replace(make_manifest(1), format=2))
    with pytest.raises(BackupDamaged, match="backup b1: has format 2"):
        decode_manifest("b1", content)


def test_copied_files_are_stored() -> None:
    copied = {"streams/s": {"a": FILE}}
    assert decode_copied(encode_copied(copied)) == copied
