"""Forecasts as JSON."""

from recall.learning.resolution_forecast import (
    MIN_EPISODES,
    ForecastShares,
    LabelShares,
    ResolutionForecast,
)

FREQUENCIES = LabelShares([("a", 0.5)], 0.1, [(0.3, 0.7)], (0.0, 0.2))


def test_forecast_has_the_frequencies_that_may_be_shown_instead() -> None:
    forecast = ResolutionForecast(
        [("a", 0.9)], 0.1, MIN_EPISODES, [(0.8, 1.0)], (0.0, 0.2), FREQUENCIES
    )
    stored = forecast.to_json()
    assert not stored["withheld"]
    assert stored["frequencies"]["tags"] == [("a", 0.5)]


def test_few_episodes_withhold_the_numbers() -> None:
    forecast = ResolutionForecast([("a", 0.9)], 0.1, MIN_EPISODES - 1, frequencies=FREQUENCIES)
    assert forecast.to_json() == {
        "tags": [],
        "new_tag": None,
        "episodes": MIN_EPISODES - 1,
        "withheld": True,
    }


def test_shares_are_stored_by_tag() -> None:
    shares = ForecastShares({"a": (0.9, 0.5)}, (0.1, 0.1), withheld=False)
    assert shares.to_json() == {
        "tags": {"a": (0.9, 0.5)},
        "new_tag": (0.1, 0.1),
        "withheld": False,
    }
