"""The band of a norm over time: the quantiles of each hour's own season."""

import numpy as np

from archiver.time_range import TimeRange
from recall.norms import NormSpec, SeasonSetting
from recall.norms.band import compute_band, list_hours
from recall.norms.model import Season
from tests.unit.recall.norms.worlds import DAY, HOUR, START, WEEK, make_world, usual

NOON = START + 9 * WEEK + 12 * HOUR


def make_spec(season: SeasonSetting = "hour_of_day", zone: str = "UTC") -> NormSpec:
    return NormSpec("cpu", season, zone, 8 * WEEK, "alerts", ("host",))


def test_band_of_each_hour_holds_its_usual_value_and_not_that_of_other_hours() -> None:
    world = make_world()
    shown = TimeRange(NOON - 6 * HOUR, NOON + 6 * HOUR)
    seasons: tuple[Season, ...] = ("hour_of_day", "hour_of_week")
    for season in seasons:
        pieces = compute_band(make_spec(season), season, NOON, shown, world.times, world.values, ())
        assert [piece.start for piece in pieces] == [*range(NOON - 6 * HOUR, NOON + 6 * HOUR, HOUR)]
        for piece in pieces:
            now = usual((piece.start + piece.end) // 2)
            opposite = usual((piece.start + piece.end) // 2 + 12 * HOUR)
            assert piece.band.q025 < now < piece.band.q975
            assert abs(now - opposite) < 10 or not piece.band.q025 < opposite < piece.band.q975, (
                "half a day later other values are usual"
            )


def test_band_at_the_event_is_that_of_its_answer() -> None:
    world = make_world()
    answer = world.ask(NOON, 50.0)
    spec = make_spec()
    shown = TimeRange(NOON - HOUR, NOON + HOUR)
    inside = (world.times >= NOON - spec.span) & (world.times < NOON)
    pieces = compute_band(
        spec, "hour_of_day", NOON, shown, world.times[inside], world.values[inside]
    )
    (piece,) = [piece for piece in pieces if piece.start <= NOON < piece.end]
    band = piece.band
    assert (band.q025, band.median, band.q975) == (
        answer["q025"],
        answer["median"],
        answer["q975"],
    )
    assert piece.cycles == answer["cycles"]


def test_rows_from_the_event_on_and_spans_of_alerts_do_not_count() -> None:
    world = make_world()
    shown = TimeRange(NOON - HOUR, NOON + 2 * HOUR)
    spec = make_spec()
    before = compute_band(spec, "hour_of_day", NOON, shown, world.times, world.values)
    world.values[world.times >= NOON] = 1e9
    assert compute_band(spec, "hour_of_day", NOON, shown, world.times, world.values) == before
    alert = world.scale(NOON - DAY, NOON - DAY + HOUR, 5.0)
    wider = compute_band(spec, "hour_of_day", NOON, shown, world.times, world.values)
    left_out = compute_band(spec, "hour_of_day", NOON, shown, world.times, world.values, (alert,))
    assert wider[1].band.above > left_out[1].band.above


def test_hour_with_too_few_cycles_has_no_band() -> None:
    world = make_world(weeks=1)
    few = world.times < START + 3 * DAY
    event_ts = START + 3 * DAY + HOUR
    shown = TimeRange(event_ts - HOUR, event_ts + HOUR)
    spec = make_spec()
    assert (
        compute_band(spec, "hour_of_day", event_ts, shown, world.times[few], world.values[few])
        == []
    )
    constant = np.full(len(world.times), 7.0)
    event_ts = START + 5 * DAY
    pieces = compute_band(spec, "none", event_ts, shown, world.times, constant)
    assert [(piece.start, piece.end, piece.band.median) for piece in pieces] == [
        (shown.start, shown.end, 7.0)
    ]


def test_hours_are_those_of_the_zone_and_are_cut_at_the_ends() -> None:
    shown = TimeRange(NOON + 600_000_000, NOON + HOUR + 1)
    assert list_hours("hour_of_day", "UTC", shown) == [
        TimeRange(shown.start, NOON + HOUR),
        TimeRange(NOON + HOUR, shown.end),
    ]
    half = HOUR // 2
    assert list_hours("hour_of_day", "Asia/Kolkata", shown) == [
        TimeRange(shown.start, NOON + half),
        TimeRange(NOON + half, shown.end),
    ]
