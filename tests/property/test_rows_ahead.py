"""A clock that runs ahead makes no rows of others late, and does not hold the watermark back."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.ingest.lateness import LateRule
from archiver.ingest.watermarks import ReadProgress

SECOND = 1_000_000
LATENESS = 60 * SECOND
IDLE = 10 * SECOND
STEP = 2 * 3600 * SECOND
START = 1_000_000 * SECOND


class Row(NamedTuple):
    """A row: its host and event time."""

    host: str
    ts: int


@dataclass
class Stream:
    """A stream as the archive reads it, without decoding rows."""

    progress: ReadProgress = field(default_factory=ReadProgress)
    clock: int = 0
    last_not_ahead: int = START
    late: set[Row] = field(default_factory=set)

    def read(self, rows: list[Row], time: int, now: int) -> None:
        """Read a unit at a time; `now`: what the clock of the server shows."""
        if not rows:
            return
        self.clock = max(self.clock, now)
        rule = LateRule(clock=self.clock, before=self.progress.watermark(LATENESS))
        ts = np.array([row.ts for row in rows])
        is_late = rule.flag_late(ts).late.tolist()
        self.late |= {row for row, late in zip(rows, is_late, strict=True) if late}
        newest_not_ahead = rule.newest_not_ahead(ts)
        if newest_not_ahead is not None:
            self.last_not_ahead = time
        self.progress = self.progress.with_rows(int(ts.max()), newest_not_ahead)

    def follow(self, time: int, now: int) -> None:
        """What the loop does between units."""
        is_silent = time - self.last_not_ahead >= IDLE
        event_time = self.progress.follow_rows_ahead(LATENESS, max(self.clock, now), is_silent)
        if event_time is not None:
            self.progress = self.progress.with_advanced(event_time, ahead=True)


@dataclass(frozen=True)
class Host:
    """A host that sends a row with each unit; times in microseconds.

    `ahead`: of its clock; `delay`: of the delivery of its rows. `until`: when it stops.
    """

    name: str
    ahead: int = 0
    delay: int = 0
    until: int = 1 << 60


def _deliver(
    hosts: list[Host],
    interval: int = 5 * SECOND,
    units: int = 150,
    steps: dict[int, int] | None = None,
) -> Stream:
    """A stream that reads a unit with a row of each host at intervals.

    `steps`: from a unit on, how far the clock of the server is wrong.
    """
    stream = Stream()
    wrong = 0
    for number in range(units):
        time = START + number * interval
        wrong = (steps or {}).get(number, wrong)
        rows = []
        for host in hosts:
            if time < host.until:
                rows.append(Row(host.name, time - host.delay + host.ahead))
        stream.read(rows, time, time + wrong)
        for part in range(5):
            later = time + part * interval // 5
            stream.follow(later, later + wrong)
    return stream


NINE = [Host(f"h{number}") for number in range(9)]
FAST = 285 * SECOND


@pytest.mark.parametrize("delay", [0, 30 * SECOND, 300 * SECOND])
@pytest.mark.parametrize("stops", [False, True])
def test_one_host_ahead_with_a_delivery_delay_makes_no_row_of_others_late(
    delay: int, stops: bool
) -> None:
    until = START + 60 * SECOND if stops else 1 << 60
    stream = _deliver([*NINE, Host("fast", FAST, delay, until)])
    assert not stream.late


@pytest.mark.parametrize("delay", [0, 30 * SECOND, 300 * SECOND])
def test_one_host_ahead_makes_no_row_of_delayed_hosts_late(delay: int) -> None:
    others = [Host(host.name, delay=delay) for host in NINE]
    assert not _deliver([*others, Host("fast", FAST)]).late
    if delay <= LATENESS:
        assert not _deliver([*others, Host("fast", FAST, delay)]).late
        stopping = Host("fast", FAST, delay, until=START + 60 * SECOND)
        assert not _deliver([*others, stopping]).late


def test_watermark_follows_the_clock_if_all_hosts_are_ahead() -> None:
    stream = _deliver([Host(f"h{number}", FAST + number * SECOND) for number in range(10)])
    assert not stream.late
    end = START + 149 * 5 * SECOND
    watermark = stream.progress.watermark(LATENESS)
    assert watermark is not None
    assert end - LATENESS - 2 * SECOND <= watermark <= end + 5 * SECOND - LATENESS


def test_watermark_reaches_the_last_rows_ahead_when_they_are_past() -> None:
    stream = _deliver([Host("h0", 100_000, until=START + 20 * SECOND)], units=100)
    assert stream.progress.watermark(LATENESS) == START + 15 * SECOND + 100_000 - LATENESS


@pytest.mark.parametrize("steps", [{20: STEP, 60: 0}, {20: -STEP, 60: 0}, {20: -STEP}])
@pytest.mark.parametrize("hosts", [NINE, [*NINE, Host("fast", FAST)], [Host("fast", FAST)]])
def test_steps_of_the_clock_of_the_server_make_no_row_late(
    steps: dict[int, int], hosts: list[Host]
) -> None:
    """While the clock is ahead, it cannot tell that a host is; the rows of others may be late."""
    stream = _deliver(hosts, steps=steps)
    late_hosts = {row.host for row in stream.late}
    if hosts != NINE and len(hosts) > 1 and STEP in steps.values():
        assert "fast" not in late_hosts
    else:
        assert not late_hosts


hosts = st.builds(
    Host,
    name=st.sampled_from(["a", "b", "c"]),
    ahead=st.integers(0, 400 * SECOND),
    delay=st.integers(0, LATENESS),
    until=st.integers(START, START + 500 * SECOND),
)


@given(
    st.lists(hosts, max_size=3),
    st.integers(0, LATENESS),
    st.integers(SECOND, 20 * SECOND),
)
def test_rows_delivered_within_the_lateness_are_on_time_whatever_others_send(
    fast: list[Host], delay: int, interval: int
) -> None:
    ahead = [Host(host.name, max(host.ahead, host.delay + 1), host.delay) for host in fast]
    stream = _deliver([Host("other", delay=delay), *ahead], interval, units=60)
    assert "other" not in {row.host for row in stream.late}


@given(
    st.lists(hosts, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 400 * SECOND), st.integers(0, 300)), min_size=2, max_size=40),
)
def test_rows_of_others_are_late_as_without_the_rows_ahead(
    fast: list[Host], others: list[tuple[int, int]]
) -> None:
    """The rows of others come in each unit, delayed by any time; some hosts stay ahead."""
    with_ahead, without = Stream(), Stream()
    time = START
    for number, (delay, offset) in enumerate(others):
        time += offset * SECOND // 100
        rows = [Row(f"other {number}", time - delay)]
        ahead = [Row(host.name, time + 1 + host.ahead + FAST) for host in fast]
        without.read(rows, time, time)
        with_ahead.read([*ahead, *rows], time, time)
        with_ahead.follow(time, time)
        without.follow(time, time)
    assert with_ahead.late == without.late
    assert with_ahead.progress.watermark(LATENESS) == without.progress.watermark(LATENESS)
