"""Acknowledged incidents by asking PagerDuty's REST API."""

import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from moirae.config.receivers import PagerDutyTarget
from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound.acknowledgements import Acknowledgement
from moirae.notify.inbound.pagerduty import PagerDutyPoller, read_incidents
from tests.receivers import FakeReceiver, Received, fake_receiver

# As PagerDuty lists incidents; IDs are changed, fields that nobody reads are left out.
INCIDENT: dict[str, Any] = {
    "id": "PT4KHLK",
    "type": "incident",
    "incident_number": 1234,
    "status": "acknowledged",
    "incident_key": "baf7cf21b1da41b4b0221008339ff357",
    "acknowledgements": [
        {
            "at": "2026-11-10T00:32:52Z",
            "acknowledger": {"id": "PXPGF42", "type": "user_reference", "summary": "Earline"},
        },
        {
            "at": "2026-11-10T00:40:00Z",
            "acknowledger": {"id": "P123XYZ", "type": "user_reference", "summary": "Other"},
        },
    ],
}


def serve_pages(api: FakeReceiver, *pages: list[dict[str, Any]]) -> None:
    def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
        number = int(request.path.rpartition("offset=")[2]) // 100
        page = {"incidents": pages[number], "limit": 100, "more": number + 1 < len(pages)}
        return 200, {"Content-Type": "application/json"}, json.dumps(page).encode()

    api.answer = answer


def test_each_acknowledgement_is_reported_once() -> None:
    other = {**INCIDENT, "incident_key": "k2"}
    reported: list[Acknowledgement] = []
    stop = threading.Event()

    def report(acknowledgement: Acknowledgement) -> threading.Event:
        reported.append(acknowledgement)
        return threading.Event()

    with fake_receiver() as api:
        serve_pages(api, [INCIDENT], [other])
        target = {"routing_key": "k", "api_token": "secret", "poll": "10ms", "api": api.url[:-1]}
        poller = PagerDutyPoller(PagerDutyTarget.model_validate(target), HostPolicy(None), report)

        def note_success() -> None:
            if len(api.requests) >= 4:
                stop.set()

        poller.listen(stop, note_success)
    at = datetime(2026, 11, 10, 0, 40, tzinfo=UTC)
    groups = ["baf7cf21b1da41b4b0221008339ff357", "k2"]
    assert reported == [Acknowledgement(group, "Other (PagerDuty)", at) for group in groups]
    assert api.requests[0].path.startswith("/incidents?statuses%5B%5D=acknowledged&")
    assert api.requests[0].headers["Authorization"] == "Token token=secret"


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"incidents": [1]}', b'{"incidents": [{"status": 1}, {}]}']
)
def test_other_answers_are_failures(body: bytes) -> None:
    with pytest.raises(DeliveryFailed, match="not a list of incidents"):
        read_incidents(body)


def test_incidents_that_nobody_acknowledged_report_nothing() -> None:
    page = {"incidents": [{**INCIDENT, "acknowledgements": []}, {**INCIDENT, "status": "resolved"}]}
    assert read_incidents(json.dumps(page).encode()) == ([], False)
