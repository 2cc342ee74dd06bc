"""Appending to one stream: identities across appends, and the fence."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from archiver.chunks.chunk import FIRST_CHUNK, locate
from archiver.delta.schema import StreamSchema
from archiver.delta.table import StreamTable
from archiver.formats import JSONL
from archiver.ingest.engines.stream_appender import ClassifiedRows, StreamAppender
from archiver.ingest.lateness import LateRule
from archiver.ingest.open_unit import OpenUnit, decode_slices
from archiver.ingest.source_units import SourceUnit

SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "host": "string", "n": "bigint"},
    "ts",
    ("host",),
    (),
    timedelta(0),
    timedelta(0),
)
END_OF_TIME = 1 << 60  # microseconds


class Superseded(Exception):
    """Another process has taken over."""


def append(
    appender: StreamAppender,
    unit_id: int,
    *rows: tuple[str, int],
    fence: Callable[[], None] = lambda: None,
) -> ClassifiedRows:
    """Classify the rows (host, n) of a unit and append the new ones."""
    lines = [orjson.dumps({"ts": "2026-01-31", "host": host, "n": n}) for host, n in rows]
    unit = SourceUnit("s", "u", JSONL, lambda: iter(lines))
    slices = list(decode_slices(OpenUnit(unit, unit_id, LateRule()), SCHEMA, END_OF_TIME, None))
    classified = appender.classify(slices, [FIRST_CHUNK])
    chunk_ids = locate([FIRST_CHUNK], classified.ts)
    is_new = classified.is_new
    appender.append(
        classified.with_archive_columns(chunk_ids).filter(is_new),
        classified.entries[is_new],
        chunk_ids[is_new],
        chunks=[FIRST_CHUNK],
        batch=0,
        fence=fence,
    )
    return classified


def test_rows_of_the_same_line_are_replayed_and_others_duplicates(tmp_path: Path) -> None:
    appender = StreamAppender(StreamTable(tmp_path, SCHEMA))
    assert append(appender, 1, ("a", 1), ("b", 1)).is_new.tolist() == [True, True]
    # A new process loads the identities from the table.
    for process in (appender, StreamAppender(StreamTable(tmp_path, SCHEMA))):
        second = append(process, 1, ("a", 1), ("a", 2)).classification
        assert second.replayed.tolist() == [True, False]
        assert second.conflict.tolist() == [False, True]
        assert append(process, 2, ("b", 1)).classification.duplicate.tolist() == [True]
    assert StreamTable(tmp_path, SCHEMA).read(["host"])["host"].to_pylist() == ["a", "b"]


def test_nothing_is_appended_after_another_process_has_taken_over(tmp_path: Path) -> None:
    def fence() -> None:
        raise Superseded

    appender = StreamAppender(StreamTable(tmp_path, SCHEMA))
    with pytest.raises(Superseded):
        append(appender, 1, ("a", 1), fence=fence)
    assert not len(StreamTable(tmp_path, SCHEMA).read(["host"]))
    assert append(appender, 1, ("a", 1)).is_new.tolist() == [True]
