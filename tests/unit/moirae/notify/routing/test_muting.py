"""Silences and inhibition."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from moirae.config import InhibitRule
from moirae.config.matchers import parse_matchers
from moirae.notify.routing.muting import Muting, Silence
from moirae.notify.routing.schedule import Recurrence
from tests.unit.moirae.notify.builders import START, at, make_alert

RULE = InhibitRule.model_validate(
    {"source_matchers": ["s=page"], "target_matchers": ['s=~"warn|page"'], "equal": ["host"]}
)


def test_target_is_inhibited_while_a_source_with_equal_labels_fires() -> None:
    muting = Muting([RULE])
    muting.put(make_alert("A", s="page", host="a"))
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is not None
    assert muting.find_inhibitor({"s": "warn", "host": "b"}) is None
    assert muting.find_inhibitor({"s": "info", "host": "a"}) is None
    muting.put(make_alert("A", 0, ended=1, s="page", host="a"))
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is None


def test_alert_that_is_source_and_target_does_not_inhibit_its_kind() -> None:
    muting = Muting([RULE])
    muting.put(make_alert("A", s="page", host="a"))
    assert muting.find_inhibitor({"s": "page", "host": "a"}) is None


def test_change_of_an_earlier_alert_does_not_end_inhibition_by_the_present_one() -> None:
    muting = Muting([RULE])
    earlier = make_alert("A", 0, ended=1, s="page", host="a")
    muting.put(make_alert("A", 5, s="page", host="a"))
    muting.put(earlier)  # somebody has noted something
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is not None


def test_alert_inhibits_by_its_present_labels() -> None:
    muting = Muting([RULE])
    alert = make_alert("A", s="page", host="a")
    muting.put(alert)
    muting.put(replace(alert, labels={**alert.labels, "s": "info"}))
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is None


def test_other_rules_inhibit_by_alerts_that_fire_already() -> None:
    muting = Muting([])
    muting.put(make_alert("A", s="page", host="a"))
    muting.replace_rules([RULE])
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is not None
    muting.replace_rules([])
    assert muting.find_inhibitor({"s": "warn", "host": "a"}) is None


def test_silence_holds_back_matching_alerts_for_its_time() -> None:
    silence = Silence(
        id=UUID(int=1), matchers=parse_matchers("host=a"), starts_at=START, ends_at=at(10)
    )
    muting = Muting([], [silence])
    assert muting.find_silences({"host": "a"}, at(5)) == [UUID(int=1)]
    assert muting.find_silences({"host": "b"}, at(5)) == []
    assert muting.find_silences({"host": "a"}, at(10)) == []
    assert muting.select_audible([make_alert("A", host="a")], at(1)) == []


def test_recurring_silence_holds_back_in_its_windows() -> None:
    silence = Silence(
        id=UUID(int=1),
        matchers=parse_matchers("host=a"),
        starts_at=START,
        ends_at=START + timedelta(days=30),
        recurrence=Recurrence("0 2 * * *", timedelta(hours=1)),
    )
    assert not silence.is_active(START)
    assert silence.is_active(START.replace(hour=2, minute=30) + timedelta(days=1))
