"""Norms of rows as engines return them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from archiver.times import to_micros
from recall.engines import norms
from recall.engines.norms import answer_norm
from recall.norms import NormSpec
from recall.requests import RecallEvent

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
SPEC = NormSpec("v", "none", "UTC", 30 * 86_400_000_000, "alerts")
EVENT = RecallEvent(UUID(int=1), to_micros(NOON), {}, {"v": 7})


@pytest.mark.parametrize("kind", [pa.int32(), pa.float32(), pa.float64(), pa.decimal128(10, 2)])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_numbers_of_any_type_are_compared(kind: pa.DataType, unit: str) -> None:
    values = [None if day == 3 else Decimal(day) for day in range(1, 11)]
    if not pa.types.is_decimal(kind):
        values = [None if value is None else int(value) for value in values]
    rows = pa.table(
        {
            "value": pa.array(values, kind),
            "_o0": pa.array(
                [NOON - timedelta(days=day) for day in range(1, 11)], pa.timestamp(unit, tz="UTC")
            ),
        }
    )
    answer = answer_norm(SPEC, EVENT, rows)
    assert (answer["n"], answer["cycles"], answer["verdict"]) == (9, 9, "usual")
    assert answer["rank"] == pytest.approx((5 + 0.5) / 9)
    assert answer["median"] == 6.0


def test_answer_says_that_older_rows_were_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [NOON - timedelta(hours=hour) for hour in range(1, 61)]
    rows = pa.table(
        {
            "value": pa.array(range(-60, 0), pa.float64()),
            "_o0": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )
    assert answer_norm(SPEC, EVENT, rows)["says"] == (
        "higher than ever; not seen in 2 days; too few cycles: 3 days of at least 4"
    )
    monkeypatch.setattr(norms, "MAX_ROWS", 60)
    says = answer_norm(SPEC, EVENT, rows)["says"]
    assert says.endswith("; of the newest 100,000 rows alone")


def test_event_without_history_has_too_few_cycles() -> None:
    for rows in (None, pa.table({})):
        assert answer_norm(SPEC, EVENT, rows)["verdict"] == "too few cycles"
