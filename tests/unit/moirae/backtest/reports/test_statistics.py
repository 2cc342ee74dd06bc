"""Counts of the alerts of a back-test."""

from datetime import UTC, datetime, timedelta

from archiver.times import from_micros
from moirae.backtest.reports.statistics import count_alerts
from tests.unit.moirae.backtest.builders import fold

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def test_alerts_are_counted_by_day_hour_and_label_with_quiet_and_noisy_spans() -> None:
    alerts = [(at(minute), "a") for minute in (1, 30, 59, 200)]
    columns = fold([*alerts, (at(1500), "b"), (at(1600), "b")], hidden=[at(1600)])
    end = START + timedelta(days=2, hours=1)
    statistics = count_alerts(columns, START, end)
    assert statistics.alerts == 5
    assert statistics.by_day == {"2026-01-01": 4, "2026-01-02": 1, "2026-01-03": 0}
    assert (statistics.by_hour[0], statistics.by_hour[3], statistics.by_hour[1]) == (3, 1, 1)
    assert len(statistics.by_hour) == 24
    assert statistics.by_label == {"alertname": {"r": 5}, "host": {"a": 4, "b": 1}}
    assert statistics.noisiest is not None
    assert (statistics.noisiest.start, statistics.noisiest.alerts) == (at(1), 3)
    assert statistics.quietest[:2] == (at(1500), end)


def test_without_alerts_the_whole_range_is_quiet() -> None:
    statistics = count_alerts(fold([]), START, at(5))
    assert statistics.noisiest is None
    assert statistics.quietest == (START, at(5), 0)
    assert statistics.by_day == {"2026-01-01": 0}


def test_values_of_a_label_are_counted_by_frequency_then_by_name() -> None:
    alerts = [(at(10 * minute), f"h{minute % 12:02d}") for minute in range(13)]
    statistics = count_alerts(fold(alerts), START, at(200))
    hosts = [f"h{number:02d}" for number in range(10)]
    assert statistics.by_label["host"] == {"h00": 2, **dict.fromkeys(hosts[1:], 1)}


def test_an_alert_after_the_newest_row_has_its_day() -> None:
    moment = from_micros(0) + timedelta(days=1)
    statistics = count_alerts(fold([(moment, "a")]), from_micros(0), from_micros(1))
    assert statistics.by_day == {"1970-01-01": 0, "1970-01-02": 1}
