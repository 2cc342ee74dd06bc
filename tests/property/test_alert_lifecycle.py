"""The lifetimes of alerts depend on the events alone, folded at once or in pieces up to a horizon."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from uuid import UUID

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from moirae.alerts.column_folding import UNSET, fold_columns
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, alert_state, fold_events

END = 10_000


def reference(
    events: Sequence[Occurrence], timing: AlertTiming, horizon: int | None
) -> list[AlertLifetime]:
    """Another way to the same: events in sorted order fall into runs with no gap above `keep`."""
    ordered = sorted(events, key=lambda e: (e.ts, e.eid))
    gaps = [0, *(int(b.ts - a.ts > timing.keep_firing_for) for a, b in pairwise(ordered))]
    numbered = zip(accumulate(gaps), ordered, strict=False)
    runs = [[event for _, event in run] for _, run in groupby(numbered, key=lambda pair: pair[0])]
    return [_life(run, timing, is_last=run is runs[-1], horizon=horizon) for run in runs]


def _life(
    run: list[Occurrence], timing: AlertTiming, is_last: bool, horizon: int | None
) -> AlertLifetime:
    first, last = run[0], run[-1]
    fired = next((e.ts for e in run if e.ts >= first.ts + timing.for_), None)
    end = last.ts + timing.keep_firing_for
    is_over = not is_last or (horizon is not None and end < horizon)
    return AlertLifetime(first.eid, first.ts, last.ts, len(run), fired, end if is_over else None)


def fold_in_pieces(
    events: Sequence[Occurrence], timing: AlertTiming, horizons: Sequence[int]
) -> Iterator[list[AlertLifetime]]:
    """All lives so far after each horizon, as one who keeps only the life that goes on would have
    them.
    """
    over: list[AlertLifetime] = []
    going_on: AlertLifetime | None = None
    low = None
    for high in horizons:
        piece = [e for e in events if (low is None or e.ts >= low) and e.ts < high]
        lives = fold_events(going_on, piece, timing, high)
        going_on = lives.pop() if lives and lives[-1].ended is None else None
        over += lives
        yield [*over, *([going_on] if going_on is not None else [])]
        low = high


def at(*times: int) -> list[Occurrence]:
    """Events at these times; the number of an event follows its place."""
    return [Occurrence(ts, UUID(int=number)) for number, ts in enumerate(times)]


eids = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))
occurrences = st.lists(
    st.builds(Occurrence, ts=st.one_of(st.integers(0, 30), st.integers(-300, 300)), eid=eids),
    unique_by=lambda e: e.eid,
    max_size=25,
).map(lambda events: sorted(events, key=lambda e: (e.ts, e.eid)))
timings = st.builds(AlertTiming, for_=st.integers(0, 20), keep_firing_for=st.integers(0, 20))
horizons = st.lists(st.integers(-310, 340), max_size=8).map(sorted)


@given(occurrences, timings, st.none() | st.integers(-300, 400))
@example(at(0, 5, 11), AlertTiming(5, 5), 17)
def test_lifetimes_equal_runs_without_gaps(
    events: list[Occurrence], timing: AlertTiming, horizon: int | None
) -> None:
    seen = [e for e in events if horizon is None or e.ts < horizon]
    assert fold_events(None, seen, timing, horizon) == reference(seen, timing, horizon)


@given(st.lists(occurrences, max_size=4), timings, st.none() | st.integers(-300, 400))
def test_columns_fold_as_events_of_each_key(
    events_by_key: list[list[Occurrence]], timing: AlertTiming, horizon: int | None
) -> None:
    rows = [(event, key) for key, events in enumerate(events_by_key) for event in events]
    rows.sort(key=lambda row: (row[0].ts, row[0].eid))
    times = np.array([event.ts for event, _ in rows], np.int64)
    keys = np.array([key for _, key in rows], np.int64)
    folded = fold_columns(times, keys, timing, horizon)
    lifetimes = [
        AlertLifetime(rows[first][0].eid, starts, last, count, *map(optional, (fired, ended)))
        for first, starts, last, count, fired, ended in zip(
            *(column.tolist() for column in folded), strict=True
        )
    ]
    assert lifetimes == [
        lifetime
        for events in events_by_key
        for lifetime in fold_events(None, events, timing, horizon)
    ]


def optional(ts: int) -> int | None:
    return None if ts == UNSET else ts


@given(occurrences, timings, horizons)
def test_folding_in_pieces_equals_folding_at_once(
    events: list[Occurrence], timing: AlertTiming, horizons: list[int]
) -> None:
    steps = [*horizons, END]
    for high, lives in zip(steps, fold_in_pieces(events, timing, steps), strict=True):
        seen = [e for e in events if e.ts < high]
        assert lives == reference(seen, timing, high) == fold_events(None, seen, timing, high)
        assert all(life.ended is not None for life in lives[:-1])
    assert all(life.ended is not None for life in lives)


@given(occurrences, timings, st.data())
def test_provisional_events_end_no_alert_early(
    events: list[Occurrence], timing: AlertTiming, data: st.DataObject
) -> None:
    """Settled, then provisional events without a horizon: as if all were settled, except for the
    last end.
    """
    high = data.draw(st.integers(-310, 340))
    settled, detected = [e for e in events if e.ts < high], [e for e in events if e.ts >= high]
    lives = fold_events(None, settled, timing, high)
    last = lives.pop() if lives and lives[-1].ended is None else None
    assert [*lives, *fold_events(last, detected, timing, None)] == reference(events, timing, high)[
        : len(lives)
    ] + reference(events, timing, None)[len(lives) :]


@given(occurrences, timings)
def test_lifetimes_of_an_alert_do_not_overlap(
    events: list[Occurrence], timing: AlertTiming
) -> None:
    lives = fold_events(None, events, timing, END)
    assert sum(life.events for life in lives) == len(events)
    for before, after in pairwise(lives):
        assert before.ended is not None
        assert before.ended < after.starts


def test_event_exactly_at_the_end_continues_the_alert() -> None:
    timing = AlertTiming(0, 10)
    assert len(fold_events(None, at(0, 10), timing, None)) == 1
    assert len(fold_events(None, at(0, 11), timing, None)) == 2


def test_alert_ends_only_after_more_than_keep_firing_for() -> None:
    (life,) = fold_events(None, at(0), AlertTiming(0, 10), 10)
    assert life.ended is None
    (life,) = fold_events(life, [], AlertTiming(0, 10), 11)
    assert life.ended == 10


def test_alert_fires_at_the_event_that_completes_for() -> None:
    timing = AlertTiming(5, 10)
    assert [fold_events(None, at(*range(n)), timing, None)[0].fired for n in (5, 6, 7)] == [
        None,
        5,
        5,
    ]
    assert fold_events(None, at(0, 4, 9), timing, None)[0].fired == 9
    assert fold_events(None, at(3), AlertTiming(0, 0), None)[0].fired == 3


@given(occurrences, timings, st.booleans())
def test_state_follows_from_the_lifetime(
    events: list[Occurrence], timing: AlertTiming, settled: bool
) -> None:
    for life in fold_events(None, events, timing, END) + fold_events(None, events, timing, None):
        shown = alert_state(life, settled)
        assert (shown == "provisional") == (not settled)
        if settled:
            assert (shown == "pending") == (life.fired is None)
            assert (shown == "resolved") == (life.fired is not None and life.ended is not None)
