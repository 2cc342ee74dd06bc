"""Storms: what is sent, what is counted."""

from typing import Any

from moirae.notify.routing.folding import Budget, summarize
from moirae.notify.routing.message import Cause, Message
from tests.unit.moirae.notify.builders import START, at, make_alert


def make_message(seconds: float, cause: Cause = "change", **labels: str) -> Message:
    return Message(
        receiver="ops",
        group_key="k",
        group_labels={},
        alerts=[make_alert("A", **labels)],
        cause=cause,
        planned_at=at(seconds),
    )


def make_content(number: int, rule: str, status: str, severity: str) -> dict[str, Any]:
    alert = {
        "status": status,
        "labels": {"severity": severity},
        "startsAt": f"{number:03}",
        "moirae": {"id": str(number), "rule": rule},
    }
    return {"alerts": [alert]}


def test_messages_beyond_the_limit_are_folded_until_a_minute_has_passed() -> None:
    budget = Budget(3, {})
    assert [budget.admits(make_message(second)) for second in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert budget.admits(make_message(61))


def test_first_page_of_a_group_is_never_folded() -> None:
    budget = Budget(2, {"ops": [START, START, START]})
    assert not budget.admits(make_message(1, "first", severity="info"))
    assert budget.admits(make_message(1, "first", severity="page"))
    assert not budget.admits(make_message(1, "repeat", severity="page"))


def test_summary_is_sent_once_a_minute() -> None:
    budget = Budget(2, {})
    assert budget.admits_summary("ops", START)
    assert not budget.admits_summary("ops", at(59))
    assert budget.admits_summary("ops", at(60))


def test_summary_counts_alerts_by_their_last_state_and_names_the_worst() -> None:
    contents = [make_content(n, "g/A", "firing", "info") for n in range(5)]
    contents += [
        make_content(9, "g/B", "firing", "page"),
        make_content(0, "g/A", "resolved", "info"),
    ]
    summary = summarize(contents)
    assert (summary["messages"], summary["firing"], summary["resolved"]) == (7, 5, 1)
    assert summary["rules"] == {"g/A": 5, "g/B": 1}
    assert [alert["moirae"]["id"] for alert in summary["worst"]] == ["9", "1", "2"]
