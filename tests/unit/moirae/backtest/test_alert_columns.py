"""Alerts of a back-test by columns."""

from datetime import UTC, datetime, timedelta

from tests.unit.moirae.backtest.builders import fold

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def test_alerts_are_listed_by_start_with_the_values_of_their_first_events() -> None:
    columns = fold([(at(3), "b"), (at(1), "a"), (at(2), "a")], hidden=[at(2)])
    alerts = columns.list_all()
    assert [(alert.starts_at, alert.labels["host"]) for alert in alerts] == [
        (at(1), "a"),
        (at(2), "a"),
        (at(3), "b"),
    ]
    assert [alert.is_hidden for alert in alerts] == [False, True, False]
    assert [alert.state for alert in alerts] == ["resolved", "firing", "firing"]
    assert alerts[1].ends_at is None
    assert alerts[0].ends_at == at(1) + timedelta(seconds=1)
    assert alerts[2].attributes["host"] == "b"
    assert len(columns.shown) == 2


def test_the_newest_alerts_are_the_last_of_all_that_are_shown() -> None:
    rows = [(at(minute // 3), f"h{minute}") for minute in range(9)]
    columns = fold(rows, hidden=[at(2)])
    shown = [alert for alert in columns.list_all() if alert.is_shown]
    for count in (1, 2, 4, 6, 20):
        assert columns.list_newest(count) == shown[-count:]
    assert fold([]).list_newest(3) == []
