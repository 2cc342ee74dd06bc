"""What another version of a rule changes."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moirae.backtest.alerts import BacktestAlert
from moirae.backtest.versions import compare_versions
from tests.examples import examples
from tests.unit.moirae.backtest.builders import fold

START = datetime(2026, 1, 1, tzinfo=UTC)
_SECONDS = st.integers(0, 60)
_ROWS = st.lists(st.tuples(_SECONDS, st.sampled_from("ab")), max_size=25, unique=True)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_versions_differ_by_alerts_that_are_new_gone_or_moved() -> None:
    before = fold([(at(0), "a"), (at(20), "a"), (at(40), "a"), (at(60), "b"), (at(99), "a")])
    after = fold(
        [(at(0), "a"), (at(20.5), "a"), (at(60), "a"), (at(90), "b"), (at(99), "a")], [at(90)]
    )
    change = compare_versions(before, after)
    assert change.unchanged == 2
    (moved,) = change.list_moved()
    assert (moved.before.starts_at, moved.after.starts_at) == (at(20), at(20.5))
    assert [alert.starts_at for alert in change.list_new()] == [at(60)]
    assert [(alert.starts_at, alert.labels["host"]) for alert in change.list_gone()] == [
        (at(40), "a"),
        (at(60), "b"),
    ]


@examples(100)
@given(_ROWS, _ROWS, st.sets(_SECONDS))
def test_any_change_is_that_of_the_alerts_one_by_one(
    before: list[tuple[int, str]], after: list[tuple[int, str]], hidden: set[int]
) -> None:
    columns = [
        fold([(at(seconds), host) for seconds, host in rows], [at(second) for second in hidden])
        for rows in (before, after)
    ]
    change = compare_versions(*columns)
    gone = [alert for alert in columns[0].list_all() if alert.is_shown]
    pairs: list[tuple[BacktestAlert, BacktestAlert]] = []
    new: list[BacktestAlert] = []
    for alert in columns[1].list_all():
        if alert.is_shown:
            same = [other for other in gone if is_same(other, alert)]
            new += [alert] if not same else []
            if same:
                gone.remove(same[0])
                pairs.append((same[0], alert))
    moved = [pair for pair in pairs if list_times(pair[0]) != list_times(pair[1])]
    assert describe(change.list_new()) == describe(new)
    assert describe(change.list_gone()) == describe(gone)
    assert sorted(map(describe, change.list_moved())) == sorted(map(describe, moved))
    assert change.unchanged == len(pairs) - len(moved)


def is_same(alert: BacktestAlert, other: BacktestAlert) -> bool:
    """Of one key, and they overlap."""
    ends = [each.ends_at or at(1000) for each in (alert, other)]
    overlap = alert.starts_at <= ends[1] and other.starts_at <= ends[0]
    return overlap and alert.labels == other.labels


def list_times(alert: BacktestAlert) -> tuple[datetime | None, ...]:
    return alert.starts_at, alert.fired_at, alert.ends_at


def describe(alerts: object) -> list[str]:
    return sorted(map(str, alerts))  # type: ignore[call-overload]
