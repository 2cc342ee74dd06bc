"""Contents of messages for the tests of channels."""

from typing import Any

from moirae.config import Receiver
from moirae.notify.messages.content import make_content
from moirae.notify.routing.message import Cause, Message
from tests.unit.moirae.notify.builders import START, make_alert

HISTORY = {
    "norm": {
        "norm": {
            "rows": [{"mean": 40.123456, "sd": 3.0}],
            "deviations": 17.0,
            "normal": False,
            "value": {"cpu": 91},
        }
    },
    "similar": [
        {
            "event": "e",
            "score": 0.9,
            "at": "2026-01-01T00:00:00Z",
            "resolution": "restart",
            "tag": "r",
        }
    ],
    "resolution": [{"tag": "restart", "probability": 0.8}],
    "coverage": {"norm": {"read": 3, "pieces": 4, "final": False}},
}


def make_message_content(
    *, cause: Cause = "first", annotations: dict[str, str] | None = None, **labels: str
) -> dict[str, Any]:
    alert = make_alert("Disk", **{"host": "a", "severity": "page", **labels})
    object.__setattr__(alert, "annotations", annotations or {"summary": "disk full"})
    message = Message(
        receiver="ops",
        group_key='{}:{alertname="Disk"}',
        group_labels={"alertname": "Disk"},
        alerts=[alert],
        cause=cause,
        planned_at=START,
    )
    return make_content(message, "http://m", {str(alert.id): HISTORY})


def make_receiver(**fields: Any) -> Receiver:
    return Receiver.model_validate(fields)
