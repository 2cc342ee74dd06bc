"""Conversion of event times."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from archiver import times


def test_datetimes_of_any_zone_become_microseconds_of_utc() -> None:
    moment = datetime(1970, 1, 1, 2, 0, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    assert times.to_micros(moment) == 7


@pytest.mark.parametrize("micros", [0, -1, 1, 253_402_300_799_999_999, -62_135_596_800_000_000])
def test_microseconds_survive_a_round_trip(micros: int) -> None:
    moment = times.from_micros(micros)
    assert moment.tzinfo is UTC
    assert times.to_micros(moment) == micros


def test_durations_are_rounded_down_to_microseconds() -> None:
    assert times.duration_to_micros(timedelta(days=1, microseconds=1)) == 86_400_000_001


def test_none_stays_none() -> None:
    assert times.optional_micros(None) is None
    assert times.optional_datetime(None) is None
    assert times.optional_micros(times.optional_datetime(5)) == 5


def test_timestamp_columns_are_read_as_microseconds() -> None:
    column = pa.chunked_array([[1], [2, -3]], pa.timestamp("us", tz="UTC"))
    micros = times.micros_column(pa.table({"ts": column}), "ts")
    assert micros.dtype == "int64"
    assert micros.tolist() == [1, 2, -3]
