"""The bands of an event's norms, from archived rows of its key."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID

import pytest

from archiver.delta import StreamTable
from archiver.times import duration_to_micros, to_micros
from moirae.inspect import norm_bands
from moirae.inspect.norm_bands import NormBand, load_norm_bands
from recall.norms import NormSpec
from tests.unit.moirae.inspect.test_timeline import TS, append, schema

HOUR = timedelta(hours=1)
EID = UUID(int=1)


def load(
    folder: Path, monkeypatch: pytest.MonkeyPatch, season: str = "hour_of_day", **norm: Any
) -> list[NormBand]:
    spec = NormSpec(
        "cpu", "auto", "UTC", duration_to_micros(timedelta(days=30)), "alerts", ("host",)
    )
    row = SimpleNamespace(
        recall="usual",
        request={"norm": {**spec.to_json(), **norm}, "streams": {"node": "ts"}},
        event={"ts": to_micros(TS), "key": {}, "attributes": {"host": "a", "cpu": 3.0}},
        answer=[{"season": season}],
    )
    ledger = MagicMock()
    ledger.latest_answers.return_value = {"usual": row}
    monkeypatch.setattr(norm_bands, "Ledger", lambda connection: ledger)
    return load_norm_bands(folder, MagicMock(), [schema()], EID, before=2 * HOUR, after=HOUR)


def archive(folder: Path, days: int) -> None:
    """Each hour of some days before: its number for host a, more for b."""
    table = StreamTable(folder, schema())
    times = [TS - hours * HOUR for hours in range(24 * days + 1)]
    append(table, [{"ts": ts, "host": "a", "cpu": float(ts.hour)} for ts in times])
    append(table, [{"ts": ts, "host": "b", "cpu": 1_000.0} for ts in times])


def test_each_hour_has_the_quantiles_of_the_key_in_its_season(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, days=10)
    (band,) = load(tmp_path, monkeypatch)
    assert (band.recall, band.stream, band.column, band.reason) == ("usual", "node", "cpu", None)
    assert band.starts == [TS - 2 * HOUR, TS - HOUR, TS]
    assert band.ends[-1] == TS + HOUR
    assert band.median == band.q025 == band.q975 == [10.0, 11.0, 12.0]
    (whole,) = load(tmp_path, monkeypatch, season="none")
    assert (whole.starts, whole.median) == ([TS - 2 * HOUR], [11.5])


def test_as_many_of_the_newest_rows_are_read_as_are_quick_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = StreamTable(tmp_path, schema())
    for day in range(10, 0, -1):
        times = [TS - day * 24 * HOUR + hours * HOUR for hours in range(24)]
        append(table, [{"ts": ts, "host": "a", "cpu": float(day)} for ts in times])
    assert load(tmp_path, monkeypatch)[0].median[-1] == 5.5
    monkeypatch.setattr(norm_bands, "_MAX_ROWS", 24 * 6)
    (band,) = load(tmp_path, monkeypatch)
    assert band.since is not None
    assert timedelta(0) < band.since - (TS - 7 * 24 * HOUR + 23 * HOUR) < HOUR
    assert (band.median[-1], band.reason) == (3.5, None), "of six days"


def test_reason_is_given_where_there_is_no_band(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(tmp_path, monkeypatch)[0].reason == "nothing is archived yet"
    archive(tmp_path, days=3)
    assert load(tmp_path, monkeypatch)[0].reason == "too few cycles"
    monkeypatch.setattr(norm_bands, "_MAX_ROWS", 10)
    assert load(tmp_path, monkeypatch)[0].reason == "more than 10 rows to read"
    assert load(tmp_path, monkeypatch, by=None) == [], "as an earlier version stored it"
