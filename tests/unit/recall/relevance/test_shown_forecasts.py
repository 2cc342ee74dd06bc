"""The record of forecasts as they were shown."""

import pytest

from recall.relevance.shown_forecasts import RECORD_EPISODES, ShownForecast, measure_shown

HOUR = 3_600_000_000  # microseconds


def make_forecasts(count: int, probability: float, first: int = 0) -> list[ShownForecast]:
    """One episode a day, whose tag had this probability, and the frequency 0.5."""
    return [
        ShownForecast((first + number) * 24 * HOUR, "t", probability, 0.5, withheld=False)
        for number in range(count)
    ]


def test_no_record_without_forecasts() -> None:
    assert measure_shown([], HOUR) is None


def test_sure_and_wrong_forecasts_are_worse_than_frequencies() -> None:
    record = measure_shown(make_forecasts(25, 0.01), HOUR)
    assert record is not None
    assert record.is_worse
    assert record.excess.value == pytest.approx(record.log_loss - record.frequency_log_loss)


def test_few_episodes_say_nothing() -> None:
    record = measure_shown(make_forecasts(19, 0.01), HOUR)
    assert record is not None and not record.is_worse


def test_good_forecasts_are_not_worse() -> None:
    record = measure_shown(make_forecasts(50, 0.9), HOUR)
    assert record is not None
    assert record.excess.high < 0 and not record.is_worse


def test_newest_episodes_count() -> None:
    good = make_forecasts(RECORD_EPISODES, 0.9, first=100)
    record = measure_shown(make_forecasts(100, 0.01) + good, HOUR)
    assert record == measure_shown(good, HOUR)


def test_events_of_one_episode_are_one_sample() -> None:
    forecasts = make_forecasts(30, 0.9)
    burst = [ShownForecast(forecasts[-1].ts + n, "t", 0.9, 0.5, False) for n in range(1, 50)]
    record = measure_shown(forecasts + burst, HOUR)
    assert record is not None and record.episodes == 30


def test_withheld_forecasts_count_as_frequencies() -> None:
    withheld = [
        ShownForecast(row.ts, row.tag, row.probability, row.frequency, withheld=True)
        for row in make_forecasts(30, 0.01)
    ]
    record = measure_shown(withheld, HOUR)
    assert record is not None
    assert record.excess.value == 0 and not record.is_worse
    assert record.withheld_share == 1


def test_impossible_tag_has_a_finite_loss() -> None:
    record = measure_shown(make_forecasts(25, 0.0), HOUR)
    assert record is not None and record.is_worse
