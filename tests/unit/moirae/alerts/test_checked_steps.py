"""Steps that found the cause of similar past alerts, the fastest first."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from moirae.alerts.checked_steps import InvestigatedAlert, rank_steps

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_note(minute: float, text: str = "", outcome: str | None = None, result: str = "") -> Any:
    return {
        "kind": "ack" if outcome is None else "checked",
        "text": text,
        "outcome": outcome,
        "result": result,
        "at": (START + timedelta(minutes=minute)).isoformat(),
    }


def make_alert(number: int, *notes: Any) -> InvestigatedAlert:
    return InvestigatedAlert(UUID(int=number), START, notes)


def test_steps_that_found_the_cause_come_first_by_their_share_for_each_minute() -> None:
    alerts = [
        make_alert(
            1,
            make_note(1),
            make_note(21, "read all logs", "confirmed"),
            make_note(22, "df  -h", "ruled out", "40 % used"),
        ),
        make_alert(2, make_note(2, "df -h", "confirmed", "100 % used"), make_note(3, "ps", "open")),
    ]
    steps = rank_steps(alerts)
    assert [step.step for step in steps] == ["df -h", "read all logs", "ps"]
    first = steps[0]
    assert (first.checked, first.confirmed, first.ruled_out) == (2, 1, 1)
    assert first.seconds == 90.0
    assert first.result == "100 % used"
    assert first.alerts == [UUID(int=1), UUID(int=2)]


def test_steps_that_left_it_open_come_before_those_that_ruled_it_out() -> None:
    notes = [make_note(1, "a", "ruled out"), make_note(2, "b", "open"), make_note(3, "c", "open")]
    assert [step.step for step in rank_steps([make_alert(1, *notes)])] == ["b", "c", "a"]


def test_time_is_not_known_where_a_note_is_long_after_the_one_before() -> None:
    notes = [make_note(600, "late", "confirmed"), make_note(601, "soon", "confirmed")]
    soon, late = rank_steps([make_alert(1, *notes)])
    assert (soon.step, soon.seconds) == ("soon", 60.0)
    assert (late.step, late.seconds) == ("late", None)


def test_alerts_without_steps_have_none() -> None:
    assert rank_steps([make_alert(1, make_note(1))]) == []
