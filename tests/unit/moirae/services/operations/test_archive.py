"""IDs and retries of dead letters; pages of chunks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

import archiver.ingest
from archiver.chunks import Chunk, ChunkRecord
from moirae.errors import UsageError
from moirae.services.operations import archive
from moirae.services.operations.archive import (
    ChunkQuery,
    RetryBody,
    list_chunks,
    measure_lags,
    parse_dead_letter_id,
    retry_dead_letters,
)


def test_id_names_source_unit_and_line() -> None:
    assert parse_dead_letter_id("17:3") == (17, 3)


@pytest.mark.parametrize("text", ["", "17", "17:", ":3", "a:3", "17:3:4", "٣:1", "1:" + "9" * 30])
def test_invalid_id_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid dead letter ID, such as 17:3"):
        parse_dead_letter_id(text)


@pytest.mark.parametrize("ids", [["17:3"], []])
@pytest.mark.parametrize("selection", [{"all": True}, {"stream": "cpu"}, {"reason": "malformed"}])
def test_ids_of_a_retry_are_not_combined_with_a_selection(
    ids: list[str], selection: dict[str, Any]
) -> None:
    body = RetryBody(ids=ids, **selection)
    with pytest.raises(UsageError, match="IDs cannot be combined with a stream, a reason or all"):
        retry_dead_letters.function(Mock(), body)


class FakeCatalog:
    def __init__(self, _: Any) -> None:
        pass

    def chunk_records(self) -> list[ChunkRecord]:
        return [
            ChunkRecord(Chunk(number, number * 10, number * 10 + 10, "old"), 1, {}, 0.0)
            for number in range(1, 6)
        ]


def test_pages_have_each_chunk_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver.ingest, "Catalog", FakeCatalog)
    monkeypatch.setattr(archive, "_open_stream_tables", lambda _: [])
    numbers: list[Sequence[int]] = []
    cursor = None
    while True:
        page = list_chunks.function(MagicMock(), ChunkQuery(limit=2, cursor=cursor, count=True))
        numbers.append([chunk["id"] for chunk in page.chunks])
        assert page.total == 5
        cursor = page.next
        if cursor is None:
            break
    assert numbers == [[1, 2], [3, 4], [5]]


def test_lag_is_not_measured_from_rows_ahead_of_the_clock() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    newest = {
        "ahead": now + timedelta(minutes=5),
        "cpu": now - timedelta(seconds=30),
        "unread": None,
    }
    assert measure_lags(newest, now) == {"ahead": 0.0, "cpu": 30.0}
    # Without rows ahead, the clock is not in it: history is read from long ago.
    past = {"a": now - timedelta(days=9), "b": now - timedelta(days=10)}
    assert measure_lags(past, now) == {"a": 0.0, "b": 86_400.0}
