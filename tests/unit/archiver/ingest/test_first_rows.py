"""When the first row of a stream is final; see also the property tests of absence."""

from types import SimpleNamespace
from typing import Any

import pytest

from archiver.ingest import first_rows
from archiver.ingest.first_rows import FirstRows


def make_rows(stored: dict[str, int], watermark: int | None) -> tuple[FirstRows, dict[str, int]]:
    catalog: Any = SimpleNamespace(
        first_times=lambda: dict(stored), put_first_time=stored.__setitem__
    )
    tables: Any = {"s": None}
    return FirstRows(catalog, tables, lambda _: watermark), stored


def test_first_time_is_stored_once_no_earlier_row_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "find_first_time", lambda _: 10)
    early, stored = make_rows({}, watermark=10)
    assert early.time("s") == 10 and stored == {}
    final, stored = make_rows({}, watermark=11)
    assert final.time("s") == 10 and stored == {"s": 10}


def test_stored_time_stays_when_rows_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_rows, "find_first_time", lambda _: 99)
    rows, _ = make_rows({"s": 10}, watermark=200)
    assert rows.time("s") == 10
