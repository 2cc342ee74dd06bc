"""Refined history: what makes a message follow."""

from typing import Any
from uuid import UUID

from moirae.notify.messages.refined import refine, summarize
from tests.unit.moirae.notify.channels.contents import HISTORY, make_message_content


def name_firing(content: dict[str, Any]) -> dict[UUID, UUID]:
    return {UUID(alert["moirae"]["id"]): UUID(int=1) for alert in content["alerts"]}


def test_message_follows_when_history_says_other_things() -> None:
    content = make_message_content()
    alert_id = content["alerts"][0]["moirae"]["id"]
    firing = name_firing(content)
    assert refine(content, firing, {alert_id: HISTORY}) is None
    hit = {**HISTORY["similar"][0], "event": "f"}  # type: ignore[dict-item]
    refined = refine(content, firing, {alert_id: {**HISTORY, "similar": [hit]}})
    assert refined is not None
    assert refined["cause"] == "refined"
    (alert,) = refined["alerts"]
    assert alert["moirae"]["similar"][0]["event"] == "f"
    assert alert["moirae"]["link"] == content["alerts"][0]["moirae"]["link"]


def test_alerts_that_ended_are_left_out() -> None:
    content = make_message_content()
    alert_id = content["alerts"][0]["moirae"]["id"]
    assert refine(content, {}, {alert_id: {}}) is None


def test_figures_and_coverage_alone_change_nothing() -> None:
    read_on = {**HISTORY, "coverage": {"norm": {"read": 4, "pieces": 4, "final": True}}}
    likelier = {**read_on, "resolution": [{"tag": "restart", "probability": 0.9}]}
    assert summarize(likelier) == summarize(HISTORY)
    normal = {**HISTORY, "norm": {"norm": {"rows": [], "normal": True}}}
    assert summarize(normal) != summarize(HISTORY)
    assert summarize({**HISTORY, "resolution": [{"tag": "disk"}]}) != summarize(HISTORY)
