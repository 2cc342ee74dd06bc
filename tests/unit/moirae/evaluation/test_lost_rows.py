"""Rows that rules have lost are identified by their values."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from archiver.times import to_micros
from moirae.evaluation.lost_rows import LostRow, LostRows, hash_values, remove_rows
from tests.unit.moirae.evaluation.builders import START, make_filter, make_rows

RULE = make_filter("A", 1.5)


def _lose(ts: datetime, value: float, host: str = "a") -> LostRow:
    return LostRow(RULE, "s", {"ts": ts, "host": host, "v": value}, "too slow")


def test_lost_rows_are_left_out_of_a_table() -> None:
    rows = make_rows(1.0, 2.0, 3.0)
    lost = _lose(START + timedelta(seconds=1), 2.0)
    assert remove_rows(rows, [lost])["v"].to_pylist() == [1.0, 3.0]
    lost_rows = LostRows()
    assert lost_rows.add(RULE.rule_version, "s", lost.key) is True
    assert lost_rows.add(RULE.rule_version, "s", lost.key) is False
    assert lost_rows.list_streams(RULE) == ["s"]
    assert lost_rows.remove_from(RULE, "s", rows)["v"].to_pylist() == [1.0, 3.0]
    assert lost_rows.list_times(RULE, "s") == [to_micros(lost.values["ts"])]


def test_other_row_of_the_same_time_stays() -> None:
    rows = make_rows(1.0, 2.0)
    lost_rows = LostRows()
    lost_rows.add(RULE.rule_version, "s", _lose(START, 7.0).key)
    assert lost_rows.remove_from(RULE, "s", rows) is rows


def test_rows_of_other_versions_are_forgotten() -> None:
    lost_rows = LostRows()
    lost_rows.add(RULE.rule_version, "s", _lose(START, 1.0).key)
    lost_rows.retain(set())
    assert lost_rows.versions == set()


@pytest.mark.parametrize("value", [float("nan"), "\ud800", b"\x00", 1 << 70, None])
def test_any_value_has_a_hash(value: Any) -> None:
    assert hash_values({"a": value, "b": 1}) == hash_values({"b": 1, "a": value})


def test_description_shortens_long_texts() -> None:
    text = _lose(START, 1.0, "x" * 5_000).describe()["host"]
    assert text == "x" * 1_000 + "… (5,000 characters)"


def test_oldest_rows_are_forgotten_beyond_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moirae.evaluation.lost_rows.MAX_ROWS", 2)
    lost_rows = LostRows()
    times = [START + timedelta(seconds=number) for number in range(3)]
    for ts in times:
        lost_rows.add(RULE.rule_version, "s", _lose(ts, 1.0).key)
    assert lost_rows.list_times(RULE, "s") == [to_micros(ts) for ts in times[1:]]
