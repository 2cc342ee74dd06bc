"""What became of fixes."""

from datetime import UTC, datetime, timedelta

import pytest

from moirae.alerts.fixes import format_span, summarize_fixes
from sql.alerts import TagNameRow, TriedFixRow

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOW = START + 30 * DAY


def make_fix(
    number: int,
    tag: str = "restart",
    effect: str | None = None,
    back: timedelta | None = None,
    ended: bool = True,
    rule: str = "g/r",
    superseded_by: str | None = None,
) -> TriedFixRow:
    ends_at = START + number * DAY
    return TriedFixRow(
        rule=rule,
        tag=tag,
        effect=effect,
        superseded_by=superseded_by,
        at=ends_at - HOUR,
        ends_at=ends_at if ended else None,
        next_at=None if back is None else ends_at + back,
    )


def test_fix_that_came_back_once_says_after_what_time() -> None:
    fixes = [make_fix(number, back=3 * DAY) for number in range(5)]
    (record,) = summarize_fixes([*fixes, make_fix(6, back=2 * HOUR)], [], DAY, NOW)
    assert (record.worked, record.came_back, record.alerts) == (5, [2 * HOUR], 6)
    assert record.describe() == "worked 5 of 6 times, came back once after 2 h"


@pytest.mark.parametrize(
    ("fix", "described"),
    [
        (make_fix(0, back=DAY), "worked 0 of 1 time, came back once after 24 h"),
        (make_fix(0, back=DAY + timedelta(seconds=1)), "worked 1 of 1 time"),
        (make_fix(0, effect="did not help", back=HOUR), "worked 0 of 1 time, did not help once"),
        (make_fix(0, effect="no action needed", back=HOUR), "no action needed 1 time"),
        (make_fix(0, ended=False), "1 not decided yet"),
        (make_fix(29, back=HOUR), "worked 0 of 1 time, came back once after 1 h"),
        (make_fix(30), "1 not decided yet"),
        (
            make_fix(0, effect="superseded", superseded_by="resize"),
            "worked 1 of 1 time, superseded by resize",
        ),
    ],
)
def test_each_alert_counts_by_its_last_resolution(fix: TriedFixRow, described: str) -> None:
    (record,) = summarize_fixes([fix], [], DAY, NOW)
    assert record.describe() == described
    assert record.alerts == 1


def test_tags_are_listed_by_frequency_with_rules_and_former_names() -> None:
    fixes = [make_fix(0, "b"), make_fix(1, "a"), make_fix(2, "a", rule="g/s"), make_fix(3, "c")]
    name = TagNameRow("old", "a", "ada", START)
    first, *others = summarize_fixes(fixes, [name], DAY, NOW)
    assert [record.tag for record in others] == ["b", "c"]
    assert (first.tag, first.rules, first.formerly) == ("a", ["g/r", "g/s"], ["old"])
    assert (first.first_at, first.last_at) == (fixes[1].at, fixes[2].at)


def test_several_returns_say_their_median() -> None:
    fixes = [make_fix(0, back=HOUR), make_fix(1, back=2 * HOUR), make_fix(2, back=12 * HOUR)]
    (record,) = summarize_fixes(fixes, [], DAY, NOW)
    assert record.describe().endswith("came back 3 times after 2 h in the median")


def test_no_fix_has_no_record() -> None:
    assert summarize_fixes([], [], DAY, NOW) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3_569, "59 min"),
        (3_580, "1 h"),
        (172_000, "2 d"),
    ],
)
def test_spans_have_their_largest_unit(seconds: float, text: str) -> None:
    assert format_span(timedelta(seconds=seconds)) == text
