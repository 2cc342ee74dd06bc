"""What messages say about probable resolutions."""

from typing import Any

from moirae.notify.messages.forecast import describe_forecast, format_forecast, format_match

FORECAST = {
    "tags": [["restart", 0.8], ["grow", 0.1]],
    "new_tag": 0.05,
    "intervals": [[0.6, 0.9], [0.05, 0.2]],
    "new_tag_interval": [0.0, 0.1],
    "episodes": 40,
    "withheld": False,
}


def format_lines(**fields: Any) -> list[str]:
    return format_forecast(describe_forecast({**FORECAST, **fields}))


def test_probability_comes_with_its_interval() -> None:
    assert format_lines() == ["probable resolution: restart (80%, 95 % interval 60% to 90%)"]


def test_what_became_of_the_fix_is_said() -> None:
    (line,) = format_lines(records={"restart": "worked 5 of 6 times, came back once after 2 h"})
    assert line.endswith("90%); worked 5 of 6 times, came back once after 2 h")


def test_few_episodes_say_too_few() -> None:
    lines = format_lines(tags=[], new_tag=None, intervals=[], episodes=12, withheld=True)
    assert lines == ["probable resolution: too few to say (12 resolved episodes)"]


def test_frequencies_come_with_the_reason() -> None:
    lines = format_lines(by="frequencies", reason="Plain frequencies are shown.")
    assert lines[1] == "Plain frequencies are shown."
    assert describe_forecast({**FORECAST, "by": "frequencies"})["forecast"]["by"] == "frequencies"


def test_probably_new_resolution_is_said() -> None:
    assert format_lines(new_tag=0.9, tags=[["restart", 0.1]]) == [
        "probable resolution: none of the known ones (90%)"
    ]


def test_forecast_of_an_earlier_version_has_no_interval() -> None:
    assert format_forecast(describe_forecast({"tags": [["restart", 0.8]], "new_tag": 0.1})) == [
        "probable resolution: restart (80%)"
    ]


def test_no_forecast_no_line() -> None:
    assert format_forecast({}) == []


def test_replaced_forecast_without_frequencies_says_why() -> None:
    forecast = {"tags": [], "new_tag": None, "by": "frequencies", "reason": "Worse."}
    assert format_forecast(describe_forecast(forecast)) == ["Worse."]


def test_match_has_intervals() -> None:
    match = {
        "episodes": 40,
        "withheld": False,
        "probability": 0.31,
        "interval": [0.2, 0.45],
        "nothing_comparable": 0.1,
        "nothing_comparable_interval": [0.05, 0.2],
    }
    nothing = "nothing comparable: 10%, 95 % interval 5% to 20%"
    assert format_match(match) == [
        "most similar alert is of the same kind: 31%, 95 % interval 20% to 45%",
        nothing,
    ]
    assert format_match({**match, "probability": None, "interval": None}) == [nothing]


def test_match_from_few_episodes_says_nothing() -> None:
    assert format_match({"episodes": 3, "withheld": True}) == []
    assert format_match(None) == []
