"""The order of changes near an alert."""

import numpy as np

from archiver.times import from_micros
from moirae.recent_changes import HourCounts, describe_change
from moirae.recent_changes.kinds import kind_of
from moirae.recent_changes.ranking import (
    Change,
    HistoryStart,
    PastAlert,
    Question,
    RankedChange,
    rank_changes,
)
from moirae.recent_changes.statistics import HOUR
from moirae.topology import Location, make_topology

NOW = 2_000 * HOUR
MINUTE = HOUR // 60


def change(what: str, ts: int, **place: str) -> Change:
    return Change("deploys", ts, what, place)


def ask(
    changes: list[Change],
    past: list[PastAlert],
    similar: list[tuple[Location, int]] | None = None,
    start: HistoryStart = HistoryStart(0, 0),
) -> list[RankedChange]:
    question = Question(
        key={"host": "a"},
        ts=NOW,
        within=6 * HOUR,
        starts={"deploys": start},
        similar=similar or [],
        past=past,
        topology=make_topology([]),
        steps={"deploys": 1},
    )
    return rank_changes(changes, question)


def make_history() -> tuple[list[Change], list[PastAlert]]:
    """Alerts follow each deployment of `web` by half an hour; `logrotate` runs each day."""
    random = np.random.default_rng(1)
    changes = [change("logrotate", 24 * day * HOUR, host="a") for day in range(83)]
    past = []
    for ts in sorted(random.integers(0, 1_900 * HOUR, 12).tolist()):
        changes.append(change(f"web 1.{len(past)}.0", ts, host="a"))
        past.append(PastAlert({"host": "a"}, ts + HOUR // 2, ts + HOUR))
    return changes, past


def test_a_change_that_came_before_alerts_is_first() -> None:
    changes, past = make_history()
    changes += [
        change("logrotate", NOW - 5 * MINUTE, host="a"),
        change("web 2.0.0", NOW - 12 * MINUTE, host="a"),
        change("web 2.0.0", NOW - MINUTE, host="b"),
        change("web 2.0.1", NOW + MINUTE, host="a"),
    ]
    similar = [(alert.key, alert.start) for alert in past[:4]]
    ranked = ask(changes, past, similar)
    assert [entry.change.what for entry in ranked] == ["web 2.0.0", "logrotate"]
    first = ranked[0]
    assert first.similar_with_change == 4
    assert isinstance(first.hours, HourCounts)
    assert first.hours.low > 2
    sentence = describe_change(first, from_micros(NOW))
    assert sentence.startswith("web 2.0.0 (host a) 12m before; so before 4 of the 4 most similar")
    assert "caus" not in sentence


def test_a_change_of_a_new_kind_is_listed_without_a_ratio_by_its_nearness() -> None:
    ranked = ask([change("flag on", NOW - HOUR), change("dns", NOW - 2 * HOUR, host="a")], [])
    assert [entry.change.what for entry in ranked] == ["flag on", "dns"]
    assert ranked[0].hours == "no earlier alert of this rule"


def test_equal_changes_of_one_place_are_one() -> None:
    ranked = ask([change("dns", NOW - HOUR, host="a"), change("dns", NOW - 2 * HOUR, host="a")], [])
    assert [entry.change.ts for entry in ranked] == [NOW - HOUR]


def test_a_change_after_the_alert_or_too_early_is_not_near() -> None:
    outside = [change("dns", NOW + 1, host="a"), change("dns", NOW - 6 * HOUR, host="a")]
    assert ask(outside, []) == []


def test_kinds_ignore_versions_numbers_and_hashes() -> None:
    assert kind_of("web 1.20.3 (9f86d081)") == kind_of("web 2.0 (deadbe3f)") == "web # (#)"
    assert kind_of("facade deployed") == "facade deployed"


def test_similar_alerts_before_the_first_known_change_are_not_counted() -> None:
    changes, past = make_history()
    changes.append(change("web 2.0.0", NOW - MINUTE, host="a"))
    similar = [(alert.key, alert.start) for alert in past[:4]]
    (first, *_) = ask(changes, past, similar, HistoryStart(past[2].start, past[2].start))
    assert (first.similar, first.similar_with_change) == (2, 2)


def test_without_a_readable_history_changes_are_listed_with_the_reason() -> None:
    changes, past = make_history()
    changes.append(change("web 2.0.0", NOW - MINUTE, host="a"))
    similar = [(alert.key, alert.start) for alert in past[:4]]
    start = HistoryStart(NOW - HOUR, NOW - HOUR, "more than 100,000 rows to read")
    (only,) = ask(changes[-1:], past, similar, start)
    assert (only.similar, only.hours) == (0, start.reason)
    assert describe_change(only, from_micros(NOW)).endswith(start.reason)
