"""Ends of alerts by the rows of the archive."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from archiver.time_range import TimeRange
from moirae.alerts import AlertEnd, EndingAlert
from moirae.evaluation.plan import ActiveRule
from moirae.live.silent_alerts import SilentAlerts
from moirae.rules import AlertSpec, Definition, Rule
from recall.query import Shape, Tables

MINUTE = 60_000_000
TYPES = {"ts": "timestamp", "host": "string", "core": "bigint"}


class Archive:
    """Rows of a stream `cpu`: minute, host, core. `reads`: ranges that were read."""

    def __init__(self, *rows: tuple[float, str | None, int]) -> None:
        times = pa.array([int(minute * MINUTE) for minute, _, _ in rows], pa.timestamp("us", "UTC"))
        hosts, cores = [row[1] for row in rows], [row[2] for row in rows]
        self._rows = pa.table(
            {"ts": times, "host": pa.array(hosts, pa.string()), "core": pa.array(cores, pa.int64())}
        )
        self.reads: list[TimeRange] = []
        self.reads_files = True
        self.row_count = len(rows)
        schema = SimpleNamespace(query_columns=TYPES, time="ts")
        self.tables = {"cpu": SimpleNamespace(schema=schema)}

    def count_in_memory(self, stream: str, time_range: TimeRange) -> int | None:
        return None

    def estimate_count(self, stream: str, time_range: TimeRange) -> int:
        return self.row_count

    def read_near(
        self, stream: str, ranges: Sequence[TimeRange], allowed: Mapping[str, Sequence[Any]]
    ) -> pa.Table:
        assert stream == "cpu"
        self.reads += ranges
        for column, values in allowed.items():
            mask = pa.compute.is_in(self._rows[column], pa.array(values, pa.string()))
            return self._rows.filter(mask)
        return self._rows


READINGS = {"expr": "SELECT ts, host, core FROM cpu"}
ABSENCE = {"absent": "10m", "stream": "cpu", "key": ["host"]}


def make_rule(
    on_silence: str | None = None, lag: int = 0, query: Mapping[str, Any] = READINGS
) -> ActiveRule:
    spec = {"alert": "A", **query, "on_silence": on_silence, "keep_firing_for": "5m"}
    rule = Rule(group="g", spec=AlertSpec.model_validate(spec))
    types = {"host": "string", "core": "bigint"}
    definition = Definition(rule, types, ("host", "core"), ("host",))
    shape = Shape(streams=frozenset({"cpu"}), lag=lag)
    return ActiveRule(definition, Tables({"cpu": "ts"}), shape)


def make_alert(host: str | None, last: int = 0) -> EndingAlert:
    return EndingAlert(
        eid=UUID(int=len(host or "")),
        key={"host": host, "core": 1},
        last=last * MINUTE,
        ends=(last + 5) * MINUTE,
    )


def decide(
    archive: Archive,
    rule: ActiveRule,
    *alerts: EndingAlert,
    horizon: int = 6,
    input_end: int | None = None,
) -> list[AlertEnd]:
    silent = SilentAlerts(archive, archive)  # type: ignore[arg-type]
    end = None if input_end is None else input_end * MINUTE
    return list(silent.decide(rule, horizon * MINUTE, end, alerts))


def test_data_that_vanished_are_the_reason() -> None:
    archive = Archive(
        (0, "a", 1), (0, "bb", 1), (4, "a", 1), (4, "bb", 2), (0, None, 1), (2, None, 1)
    )
    alerts = [make_alert("a"), make_alert("bb"), make_alert(None)]
    ends = [AlertEnd(5 * MINUTE, reason) for reason in ("ended", "no_data", "ended")]
    assert decide(archive, make_rule(), *alerts) == ends  # type: ignore[comparison-overlap]


def test_recent_rows_are_looked_for_first() -> None:
    archive = Archive((4.99, "a", 1))
    assert decide(archive, make_rule(), make_alert("a")) == [AlertEnd(5 * MINUTE, "ended")]
    assert [time_range.end for time_range in archive.reads] == [5 * MINUTE + 1]
    assert archive.reads[0].start == 5 * MINUTE + 1 - 2_000_000


def test_rows_that_made_the_last_event_do_not_count() -> None:
    archive = Archive((0.5, "a", 1))
    assert decide(archive, make_rule(lag=MINUTE), make_alert("a"), horizon=8) == [
        AlertEnd(5 * MINUTE, "no_data")
    ]


def test_held_alert_ends_when_its_data_return() -> None:
    rule = make_rule("hold")
    archive = Archive((0, "a", 1), (60, "a", 1))
    silent = SilentAlerts(archive, archive)  # type: ignore[arg-type]
    silent.finds_reasons = False
    alert = make_alert("a")
    assert list(silent.decide(rule, 50 * MINUTE, None, [alert])) == [AlertEnd(None, None)]
    archive.reads.clear()
    assert list(silent.decide(rule, 61 * MINUTE, None, [alert])) == [AlertEnd(60 * MINUTE, "ended")]
    # What was searched is not searched again, but for the time before the end.
    assert archive.reads[-1] == TimeRange(50 * MINUTE, 61 * MINUTE)


def test_absence_is_no_reason_for_the_end_of_its_own_alert() -> None:
    archive = Archive((0, "bb", 1), (4, "a", 1))
    alerts = [make_alert("a"), make_alert("bb")]
    ended = AlertEnd(5 * MINUTE, "ended")
    assert decide(archive, make_rule(query=ABSENCE), *alerts) == [ended, ended]
    assert decide(archive, make_rule("hold", query=ABSENCE), *alerts) == [
        ended,
        AlertEnd(None, None),
    ]


def test_end_of_the_input_holds_nothing() -> None:
    archive = Archive((0, "a", 1), (3, "b", 1))
    ends = decide(archive, make_rule("hold"), make_alert("a"), horizon=20, input_end=4)
    assert ends == [AlertEnd(5 * MINUTE, None)]


def test_nobody_looks_where_no_reason_is_wanted() -> None:
    archive = Archive()
    silent = SilentAlerts(archive, archive)  # type: ignore[arg-type]
    silent.finds_reasons = False
    assert silent.decide(make_rule(), 6 * MINUTE, None, [make_alert("a")]) == [
        AlertEnd(5 * MINUTE, None)
    ]
    assert archive.reads == []


@pytest.mark.parametrize(("reads_files", "row_count"), [(False, 1), (True, 10**9)])
def test_reason_is_unknown_where_live_work_would_wait(reads_files: bool, row_count: int) -> None:
    archive = Archive((0, "a", 1))
    archive.reads_files, archive.row_count = reads_files, row_count
    assert decide(archive, make_rule(), make_alert("a")) == [AlertEnd(5 * MINUTE, None)]
    assert decide(archive, make_rule("hold"), make_alert("a")) == [AlertEnd(None, None)]
