"""`moirae streams list`: accounting of each stream, and its lag."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archiver.chunks.chunk import CutPolicy
from archiver.formats import JSONL
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.writer import ArchiveWriter
from archiver.times import to_micros
from moirae.cli import app
from moirae.config.settings import load_settings_from_environment
from moirae.config.table_schemas import stream_schema
from moirae.runtime import database, storage
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams:
  ahead: {columns: {ts: timestamp, n: int}, time: ts, id: [n], lateness: 1m, source: {files: ahead/*.jsonl}}
  behind: {columns: {ts: timestamp, n: int}, time: ts, source: {files: behind/*.jsonl}}
  unread: {columns: {ts: timestamp}, time: ts, source: {files: unread/*.jsonl}}
"""
NOW = to_micros(datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


def _row(minute: int, n: int) -> bytes:
    return json.dumps({"ts": f"2026-01-01T00:{minute:02d}:00Z", "n": n}).encode()


def _list_streams(root: Path) -> dict[str, dict[str, Any]]:
    command = ["streams", "list", "-o", "json", "--workspace", str(root / "moirae.yaml")]
    rows = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    return {row["stream"]: row for row in rows}


def test_streams_list_accounts_for_every_line(root: Path) -> None:
    settings = load_settings_from_environment(root / "moirae.yaml")
    schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
    with database.connect_database(settings, "tests") as connection:
        archive = ArchiveWriter(
            storage.open_storage(settings),
            schemas,
            CutPolicy(1000, 1 << 40),
            connection,
            lambda: None,
        )
        far = b'{"ts": "2999-01-01T00:00:00Z", "n": 9}'
        # The second unit: a row again, one late, one that is none and one of the far future.
        ahead = ([_row(10, 1), _row(20, 2)], [_row(20, 2), _row(1, 3), b"{", far])
        units = [
            SourceUnit("ahead", f"a{at}", JSONL, lambda lines=lines: iter(lines))
            for at, lines in enumerate(ahead)
        ]
        for unit in [*units, SourceUnit("behind", "b", JSONL, lambda: iter([_row(18, 1)]))]:
            archive.ingest([unit], NOW)
    output = _list_streams(root)
    counts = {
        "read": 6,
        "archived": 3,
        "late": 1,
        "duplicates": 1,
        "malformed": 1,
        "quarantined": 1,
    }
    zeros = {"conflicts": 0, "expired": 0, "deleted": 0}
    assert {name: output["ahead"][name] for name in (*counts, *zeros)} == counts | zeros
    assert (output["ahead"]["lag"], output["behind"]["lag"], output["unread"]["lag"]) == (
        0.0,
        120.0,
        None,
    )
    assert [output[name]["rows"] for name in ("ahead", "behind", "unread")] == [3, 1, 0]
    assert [output[name]["newest"] for name in ("ahead", "unread")] == [
        "2026-01-01T00:20:00Z",
        None,
    ]
