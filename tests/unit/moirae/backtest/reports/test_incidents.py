"""Which known incidents alerts catch, by columns and by objects."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moirae.backtest.reports.incidents import KnownIncident, count_caught, find_caught
from tests.unit.moirae.backtest.builders import fold

START = datetime(2026, 1, 1, tzinfo=UTC)
moments = st.integers(0, 20).map(lambda seconds: START + timedelta(seconds=seconds))
hosts = st.sampled_from("abc")


@st.composite
def incidents(draw: st.DrawFn) -> list[KnownIncident]:
    known: list[KnownIncident] = []
    for number in range(draw(st.integers(0, 4))):
        starts_at = draw(moments)
        labels = draw(st.sampled_from([{}, {"host": "a"}, {"host": "b", "alertname": "r"}]))
        ends_at = starts_at + timedelta(seconds=draw(st.integers(0, 5)))
        known.append(KnownIncident(str(number), starts_at, ends_at, labels))
    return known


@given(
    st.lists(st.tuples(moments, hosts), unique_by=lambda row: row[0], max_size=12).map(sorted),
    st.lists(moments, max_size=3),
    incidents(),
)
def test_counts_are_those_of_the_alerts_that_catch(
    rows: list[tuple[datetime, str]], hidden: list[datetime], known: list[KnownIncident]
) -> None:
    alerts = fold(rows, hidden)
    counts, report = count_caught(known, alerts), find_caught(known, alerts.list_all())
    assert counts.caught == [row.incident.id for row in report.caught]
    assert counts.missed == [incident.id for incident in report.missed]
    assert counts.delays == [row.delay for row in report.caught]
    assert counts.false_alerts == len(report.false_alerts)
    for row in report.caught:
        assert all(row.incident.labels.items() <= alert.labels.items() for alert in row.alerts)
        assert row.lead + row.delay == row.incident.ends_at - row.incident.starts_at
