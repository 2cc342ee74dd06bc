"""The key `range` of recalls: its forms, and why it is refused, with file and line."""

from typing import Any

import pytest
from pydantic import ValidationError

from moirae.rules.parse import parse_rules
from moirae.rules.questions import SqlRecall
from recall.history_ranges import MINUTE, Landmark, Season
from tests.unit.moirae.rules.rule_files import RULE, USED_NAMES, read_rule


def parse(value: Any) -> SqlRecall:
    return SqlRecall.model_validate({"sql": "SELECT 1", "range": value})


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (None, None),
        ("1w", "7d"),
        ("8d..7d", "8d..7d"),
        ({"last": "7d"}, "7d"),
        (
            {"last": "8w..1h", "same": "hour_of_week", "zone": "Europe/Rome", "around": "30m"},
            {"last": "56d..1h", "same": "hour_of_week", "zone": "Europe/Rome", "around": "30m"},
        ),
        ({"last": "30d", "same": "hour_of_day"}, {"last": "30d", "same": "hour_of_day"}),
        ({"since": "07:00"}, {"since": "07:00"}),
        ({"until": "previous"}, {"until": "previous"}),
        ({"until": "previous", "last": "30d"}, {"until": "previous", "last": "30d"}),
        (
            {"last": "4h", "since": "22:30", "zone": "Europe/Rome"},
            {"last": "4h", "since": "22:30", "zone": "Europe/Rome"},
        ),
    ],
)
def test_range_is_stored_as_it_is_read(written: Any, stored: Any) -> None:
    recall = parse(written)
    assert recall.model_dump(mode="json")["range"] == stored
    assert parse(stored) == recall


def test_time_of_the_day_may_be_written_without_quotes() -> None:
    text = (
        RULE
        + "    recall:\n      norm: {sql: SELECT 1, range: {since: 22:00, zone: Europe/Rome}}\n"
    )
    recall = read_rule(text).spec.recall["norm"]
    assert isinstance(recall, SqlRecall) and recall.range is not None
    assert recall.range.landmark == Landmark(22 * 60 * MINUTE, "Europe/Rome")


def test_season_is_utc_unless_set() -> None:
    written = parse({"last": "30d", "same": "day_of_week"}).range
    assert written is not None
    assert written.season == Season("day_of_week", "UTC", None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "a duration needs a unit"),
        ("soon", "'soon' is not a duration"),
        ("0s", "must be longer than 0s"),
        ("7d..8d", "is empty: write the longer time before the event first"),
        ("7d..7d", "is empty"),
        ("8d..", "'' is not a duration"),
        ({}, "set last, since or until"),
        ({"same": "hour_of_day"}, "set last, since or until"),
        ({"since": "07:00", "same": "hour_of_day"}, "same needs last"),
        ({"since": "7:00"}, "'7:00' is not a time of the day"),
        ({"since": "24:00"}, "is not a time of the day"),
        ({"last": "7d", "zone": "Europe/Rome"}, "zone needs since or same"),
        ({"last": "7d", "same": "hour_of_day", "zone": "Europe/Atlantis"}, "unknown time zone"),
        ({"last": "7d", "around": "5m"}, "around needs same: hour_of_day or hour_of_week"),
        ({"last": "7d", "same": "day_of_week", "around": "5m"}, "around needs same"),
        ({"last": "7d", "same": "hour_of_day", "around": "12h"}, "is all of the time"),
        ({"last": "7d", "same": "month"}, "hour_of_day"),
        ({"last": "40w", "same": "hour_of_day", "season": 1}, "season"),
        ({"last": "90w", "same": "hour_of_day", "around": "0s"}, "longer than 0s"),
        ({"last": "5000d", "same": "hour_of_day"}, "recurs more than 4,000 times"),
    ],
)
def test_range_is_refused_with_a_reason(value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as error:
        parse(value)
    assert message in str(error.value)


def test_problem_names_file_line_and_rule() -> None:
    text = RULE + "    recall:\n      norm: {sql: SELECT 1, range: {last: 7d, zone: Europe/Rome}}\n"
    _, (problem,) = parse_rules("r.yaml", text, USED_NAMES)
    assert str(problem) == (
        "r.yaml:8:53: g/A.recall.norm.range.zone: zone needs since or same: "
        "it is the zone of their local times"
    )
