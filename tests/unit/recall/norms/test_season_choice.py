"""`season: auto` finds the season of worlds that have one."""

import numpy as np
import pytest

from recall.history_ranges import DAY, HOUR
from recall.norms.cycles import to_local
from recall.norms.season_choice import SeasonChoice, choose_season
from tests.unit.recall.norms.worlds import START, WEEK, make_world


def _choose(weeks: float, seed: int, **shape: float) -> SeasonChoice:
    world = make_world(weeks=10, seed=seed, **shape)
    event_ts = START + int(weeks * WEEK) + 12 * HOUR
    inside = world.times < event_ts
    times = world.times[inside]
    return choose_season("UTC", times, to_local("UTC", times), world.values[inside], event_ts)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("shape", "season"),
    [
        ({"daily": 0.0}, "none"),
        ({"daily": 10.0}, "hour_of_day"),
        ({"daily": 10.0, "weekend": 0.5}, "hour_of_week"),
        ({"daily": 0.0, "weekend": 0.5}, "hour_of_week"),
    ],
)
def test_season_of_the_world_is_chosen(shape: dict[str, float], season: str, seed: int) -> None:
    assert _choose(8, seed, **shape).season == season


def test_reason_has_the_gain_on_held_back_days() -> None:
    reason = _choose(8, 1, daily=30.0).reason
    assert reason.startswith("the hour of the day predicted the last 14 days ")
    assert " % better than no season" in reason


def test_season_needs_four_cycles_before_the_held_back_days() -> None:
    choice = _choose(3, 1, daily=10.0, weekend=0.5)
    assert choice.season == "hour_of_day"
    assert choice.reason.endswith("; there is too little history for the hour of the week")
    assert _choose(4 / 7, 1).reason == "5 days of history are too few to compare seasons"


def test_no_history_has_no_season() -> None:
    nothing = np.empty(0, np.int64)
    choice = choose_season("UTC", nothing, nothing, np.empty(0), 5 * DAY)
    assert choice == SeasonChoice("none", "0 days of history are too few to compare seasons")
