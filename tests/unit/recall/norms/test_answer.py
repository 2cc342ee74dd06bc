"""Norms against worlds with known truth."""

import numpy as np
import pytest

from recall.norms import NORM_COLUMNS, AlertSpan, NormSpec, SeasonSetting, compute_norm
from tests.unit.recall.norms.worlds import DAY, HOUR, START, STEP, WEEK, make_world, usual

NOON = START + 9 * WEEK + 12 * HOUR
EVENING = START + 9 * WEEK + 18 * HOUR


def test_quantiles_and_rank_are_those_of_the_same_hour() -> None:
    world = make_world()
    event_ts = EVENING + 10 * 60_000_000
    answer = world.ask(event_ts, usual(event_ts) + 3)
    hours = (world.times - START) % DAY // HOUR
    days = (world.times - START) // DAY
    in_range = (world.times >= event_ts - 8 * WEEK) & (world.times < event_ts)
    in_season = in_range & (hours == 18) & (days != (event_ts - START) // DAY)
    values = world.values[in_season]
    assert (answer["n"], answer["cycles"]) == (len(values), len(np.unique(days[in_season])))
    expected = {"median": 0.5, "q025": 0.025, "q25": 0.25, "q75": 0.75, "q975": 0.975}
    for name, quantile in expected.items():
        assert answer[name] == pytest.approx(np.quantile(values, quantile))
    assert answer["mean"] == pytest.approx(values.mean())
    assert answer["sd"] == pytest.approx(values.std(ddof=1))
    assert answer["rank"] == pytest.approx(np.mean(values < usual(event_ts) + 3))
    assert set(answer) == set(NORM_COLUMNS)


@pytest.mark.parametrize(
    ("season", "verdict"), [("none", "usual"), ("hour_of_day", "higher"), ("auto", "higher")]
)
def test_value_of_the_day_is_abnormal_at_night(season: SeasonSetting, verdict: str) -> None:
    """70 is usual at noon, and never seen in the evening."""
    assert make_world().ask(EVENING, 70, season=season)["verdict"] == verdict


def test_value_of_the_week_is_abnormal_at_the_weekend() -> None:
    world = make_world(weekend=0.5)
    saturday = START + 9 * WEEK + 5 * DAY + 12 * HOUR
    weekday_value = usual(saturday)
    assert world.ask(saturday, weekday_value, season="hour_of_day")["verdict"] == "usual"
    answer = world.ask(saturday, weekday_value, season="hour_of_week")
    assert (answer["verdict"], answer["cycles"]) == ("higher", 8)
    assert str(answer["says"]).startswith(
        "higher than ever at the same hour of the week; not seen in 8 weeks; over 8 weeks"
    )
    assert world.ask(saturday, weekday_value, season="auto")["season"] == "hour_of_week"


def test_past_incidents_are_not_normal() -> None:
    """Incidents at this hour on every third day: without them the value is abnormal, with them not."""
    world = make_world()
    alerts = tuple(
        world.scale(NOON - 3 * n * DAY - HOUR, NOON - 3 * n * DAY + HOUR, 1.6) for n in range(1, 15)
    )
    value = 1.4 * usual(NOON)
    answer = world.ask(NOON, value, alerts)
    assert (answer["verdict"], answer["excluded"], answer["counted_again"]) == ("higher", 14, 0)
    assert world.ask(NOON, value)["verdict"] == "usual"
    assert (answer["seen"], answer["seen_with_alert"]) == (14, 14)
    assert "seen 14 times in 8 weeks, each time with an alert" in str(answer["says"])
    assert "14 past alerts left out" in str(answer["says"])


def test_rows_of_the_present_alert_and_cycle_are_not_compared() -> None:
    world = make_world()
    world.scale(NOON - 30 * 60_000_000, NOON, 2.0)
    present = AlertSpan(NOON - 30 * 60_000_000, None)
    for season in ("none", "hour_of_day"):
        answer = world.ask(NOON, 2 * usual(NOON), (present,), season=season)
        assert (answer["verdict"], answer["seen"]) == ("higher", 0)


@pytest.mark.parametrize(
    ("days", "verdict", "cycles"),
    [(3, "too few cycles", 3), (4, "usual", 4), (0, "too few cycles", 0)],
)
def test_fewer_than_four_cycles_are_too_few(days: int, verdict: str, cycles: int) -> None:
    answer = make_world().ask(START + days * DAY + 12 * HOUR, 50.0, span=8 * WEEK)
    assert (answer["verdict"], answer["cycles"]) == (verdict, cycles)
    if cycles < 4:
        assert "of at least 4" in str(answer["says"])


def test_step_becomes_normal() -> None:
    """After a lasting step of 2 ×, abnormal ends within two cycles after its span counts again."""
    for season, cycle in (("none", DAY), ("hour_of_day", DAY), ("hour_of_week", WEEK)):
        daily = 5.0 if season == "none" else 30.0
        world = make_world(weeks=16, daily=daily)
        step = START + 9 * WEEK + 12 * HOUR
        world.scale(step, START + 20 * WEEK, 2.0)
        alert = AlertSpan(step, None)
        counts_from = None
        verdicts: dict[int, object] = {}
        for event_ts in range(step + HOUR, step + 5 * WEEK, cycle):
            answer = world.ask(event_ts, 2 * usual(event_ts, daily), (alert,), season=season)
            verdicts[event_ts] = answer["verdict"]
            if answer["counted_again"] and counts_from is None:
                counts_from = event_ts
                assert event_ts - step >= 8 * WEEK // 10
                assert "counts again (longer than a tenth of the range)" in str(answer["says"])
        assert counts_from is not None
        early = [v for ts, v in verdicts.items() if ts < counts_from]
        late = [v for ts, v in verdicts.items() if ts > counts_from + 2 * cycle]
        assert set(early) == {"higher"}
        assert set(late) == {"usual"}, (season, verdicts)


def test_event_without_a_number_has_no_verdict() -> None:
    world = make_world()
    spec = NormSpec("cpu", "hour_of_day", "UTC", 8 * WEEK, "alerts")
    for value, text in ((None, "has no value; "), (float("nan"), "is not a number (NaN); ")):
        unknown = compute_norm(spec, NOON, value, world.times[:2], world.values[:2])
        assert unknown["verdict"] == "no value"
        answer = compute_norm(spec, NOON, value, world.times, world.values)
        assert text in answer["says"]
        assert (answer["verdict"], answer["score"], answer["rank"]) == ("no value", None, None)
        assert answer["median"] is not None


def test_nothing_is_known_without_rows() -> None:
    spec = NormSpec("cpu", "auto", "Europe/Rome", 8 * WEEK, "alerts")
    answer = compute_norm(spec, NOON, 1.0, np.empty(0, np.int64), np.empty(0))
    assert (answer["verdict"], answer["n"], answer["median"]) == ("too few cycles", 0, None)


def test_rows_in_any_order_and_rows_without_numbers_give_one_answer() -> None:
    world = make_world()
    world.values[::7] = np.nan
    order = np.random.default_rng(3).permutation(len(world.times))
    spec = NormSpec("cpu", "auto", "UTC", 8 * WEEK, "alerts")
    known = ~np.isnan(world.values)
    answer = compute_norm(spec, NOON, 60.0, world.times[known], world.values[known])
    shuffled = compute_norm(spec, NOON, 60.0, world.times[order], world.values[order])
    assert answer["mean"] == pytest.approx(shuffled.pop("mean"))
    assert answer["sd"] == pytest.approx(shuffled.pop("sd"))
    assert {name: answer[name] for name in shuffled} == shuffled


def test_constant_value_is_usual_and_any_other_is_not() -> None:
    times = START + STEP * np.arange(4_000, dtype=np.int64)
    spec = NormSpec("errors", "none", "UTC", 8 * WEEK, "none")
    event_ts = int(times[-1]) + STEP
    for value, verdict in ((0.0, "usual"), (1.0, "higher"), (-1.0, "lower")):
        answer = compute_norm(spec, event_ts, value, times, np.zeros(4_000))
        assert answer["verdict"] == verdict
    assert str(answer["says"]).startswith("lower than ever")
    rare = np.zeros(4_000)
    rare[::400] = 5.0
    for value, verdict in ((5.0, "usual"), (6.0, "higher")):
        assert compute_norm(spec, event_ts, value, times, rare)["verdict"] == verdict
