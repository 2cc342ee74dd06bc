"""When an alert is sent: at once, after history, or not before all input is read."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from moirae.notify.routing.intake import (
    INCIDENT_WAIT,
    Hold,
    RuleWaits,
    describe_row,
    find_hold,
    has_caught_up,
    has_outlasted,
    is_hold_over,
    may_be_known,
)
from sql.notifications import NotifiedAlertRow
from tests.unit.moirae.notify.builders import START, at

HOUR = timedelta(hours=1)
WAIT = timedelta(seconds=30)
ROW = NotifiedAlertRow(
    id=UUID(int=1),
    eid=UUID(int=2),
    rule="g/A",
    version="v",
    key={"host": "a"},
    labels={"alertname": "A"},
    annotations={},
    state="firing",
    history=None,
    history_final=False,
    starts_at=START,
    fired_at=START,
    ends_at=None,
    raised_at=START,
    updated_at=START,
    past=False,
    acknowledged=False,
    incident=None,
    end_reason=None,
)


@pytest.mark.parametrize(
    ("row", "waits", "hold"),
    [
        (ROW, RuleWaits(), None),
        (replace(ROW, raised_at=START + 2 * HOUR), RuleWaits(), Hold("late", None)),
        (replace(ROW, rule="external/A", raised_at=START + 2 * HOUR), RuleWaits(), None),
        (replace(ROW, history="waiting"), RuleWaits(where=WAIT), Hold("history", START + WAIT)),
        (ROW, RuleWaits(where=WAIT), Hold("history", START + WAIT)),
        (replace(ROW, history="kept"), RuleWaits(where=WAIT), None),
        (ROW, RuleWaits(history=WAIT, recalls=1), Hold("history", START + WAIT)),
        (ROW, RuleWaits(incident=True), Hold("history", START + INCIDENT_WAIT)),
        (replace(ROW, incident=UUID(int=3)), RuleWaits(incident=True), None),
    ],
)
def test_first_message_waits(row: NotifiedAlertRow, waits: RuleWaits, hold: Hold | None) -> None:
    assert find_hold(row, waits, HOUR, timedelta(0)) == hold


def test_answers_may_come_during_group_wait() -> None:
    assert find_hold(ROW, RuleWaits(history=WAIT, recalls=1), HOUR, WAIT) is None


@pytest.mark.parametrize(
    ("history", "answered", "now", "is_over"),
    [
        ("waiting", 0, at(1), False),
        (None, 0, at(1), False),
        (None, 0, at(31), True),
        ("waiting", 0, at(31), True),
        ("kept", 0, at(1), True),
        ("no_history", 0, at(1), True),
    ],
)
def test_wait_for_a_condition_ends_with_its_result_or_time(
    history: str | None, answered: int, now: datetime, is_over: bool
) -> None:
    row = replace(ROW, history=history)
    hold = Hold("history", at(30))
    assert is_hold_over(row, hold, RuleWaits(where=WAIT), answered, now) is is_over


def test_wait_for_answers_ends_with_the_last_of_them() -> None:
    hold, waits = Hold("history", at(30)), RuleWaits(history=WAIT, recalls=2)
    assert not is_hold_over(ROW, hold, waits, 1, at(1))
    assert is_hold_over(ROW, hold, waits, 2, at(1))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROW, None),
        (replace(ROW, state="resolved", ends_at=at(5)), "ended"),
        (replace(ROW, state="withdrawn", ends_at=at(5)), "withdrawn"),
        (replace(ROW, history="withdrawn"), "withdrawn"),
        (replace(ROW, state="pending", fired_at=None), "withdrawn"),
    ],
)
def test_end_has_a_reason(row: NotifiedAlertRow, reason: str | None) -> None:
    alert = describe_row(row, at(9))
    assert alert.end_reason == reason
    assert alert.is_resolved is (reason is not None)


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (replace(ROW, state="withdrawn", ends_at=at(5)), "settling"),
        (replace(ROW, state="pending", fired_at=None), "settling"),
        (replace(ROW, state="withdrawn", history="withdrawn"), "settling"),
        (replace(ROW, history="withdrawn"), "history"),
        (replace(ROW, state="resolved", ends_at=at(5)), None),
        (ROW, None),
    ],
)
def test_withdrawal_has_a_cause(row: NotifiedAlertRow, cause: str | None) -> None:
    assert describe_row(row, at(9)).withdrawn_by == cause


def test_late_alerts_wait_for_the_next_look_at_unread_input() -> None:
    assert not has_caught_up(START, at(5))
    assert has_caught_up(START, at(13))


@pytest.mark.parametrize(
    ("row", "lasts"),
    [
        (replace(ROW, ends_at=at(31), updated_at=at(1)), True),
        (replace(ROW, ends_at=at(1), updated_at=at(31)), True),
        (replace(ROW, ends_at=at(29), updated_at=at(29)), False),
        (replace(ROW, updated_at=at(31)), False),
        (replace(ROW, ends_at=at(31), state="withdrawn"), False),
        (replace(ROW, ends_at=at(31), past=True), False),
    ],
)
def test_alert_that_ended_lasted_until_its_first_message_was_due(
    row: NotifiedAlertRow, lasts: bool
) -> None:
    assert has_outlasted(row, describe_row(row, at(40)), WAIT) is lasts


@pytest.mark.parametrize(
    ("row", "restored_at", "is_reported", "is_known"),
    [
        (ROW, None, False, False),
        (ROW, at(10), False, True),
        (ROW, at(10), True, False),
        (replace(ROW, raised_at=at(20)), at(10), False, True),
        (replace(ROW, starts_at=at(20), raised_at=at(20)), at(10), False, False),
        (replace(ROW, ends_at=at(5)), at(10), True, True),
        (replace(ROW, ends_at=at(15)), at(10), True, False),
    ],
)
def test_receivers_may_know_what_the_restored_log_does_not_hold(
    row: NotifiedAlertRow, restored_at: datetime | None, is_reported: bool, is_known: bool
) -> None:
    alert = describe_row(row, at(30))
    assert may_be_known(alert, restored_at, lambda: is_reported) is is_known


@pytest.mark.parametrize(
    ("stored", "reason"), [(None, "ended"), ("ended", "ended"), ("no_data", "no_data")]
)
def test_end_carries_its_reason(stored: str | None, reason: str) -> None:
    row = replace(ROW, state="resolved", ends_at=START + HOUR, end_reason=stored)
    assert describe_row(row, at(0)).end_reason == reason


def test_first_message_waits_until_its_alert_is_in_an_incident() -> None:
    hold, waits = Hold("history", START + INCIDENT_WAIT), RuleWaits(incident=True)
    assert not is_hold_over(ROW, hold, waits, 0, START)
    assert is_hold_over(replace(ROW, incident=UUID(int=3)), hold, waits, 0, START)
    assert is_hold_over(ROW, hold, waits, 0, START + INCIDENT_WAIT)
