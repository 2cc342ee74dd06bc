"""Acknowledged incidents of PagerDuty, by asking its REST API at intervals."""

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson

from moirae.config.receivers import PagerDutyTarget
from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy, HttpClient
from moirae.notify.inbound.acknowledgements import Acknowledgement, describe_author

_TIMEOUT = 10.0  # seconds for one request
_PAGE = 100  # incidents
_MAX_PAGES = 20
_MAX_ANSWER = 4 << 20  # bytes of a page


class PagerDutyPoller:
    """Reports each acknowledgement once while the process runs."""

    def __init__(
        self,
        target: PagerDutyTarget,
        hosts: HostPolicy,
        report: Callable[[Acknowledgement], threading.Event],
    ) -> None:
        self._target = target
        self._client = HttpClient(hosts)
        self._report = report
        self._seen: set[Acknowledgement] = set()

    def listen(self, stop: threading.Event, note_success: Callable[[], None]) -> None:
        """Ask until a stop is requested. Raises `DeliveryFailed`."""
        while not stop.is_set():
            acknowledgements = set(self._read())
            note_success()
            for acknowledgement in sorted(acknowledgements - self._seen, key=_sort_key):
                self._report(acknowledgement)
            self._seen = acknowledgements
            stop.wait(self._target.poll.total_seconds())

    def _read(self) -> Iterator[Acknowledgement]:
        assert self._target.api_token is not None
        headers = {
            "Accept": "application/json",
            "Authorization": f"Token token={self._target.api_token.get_secret_value()}",
        }
        for page in range(_MAX_PAGES):
            query = f"statuses%5B%5D=acknowledged&limit={_PAGE}&offset={page * _PAGE}"
            answer = self._client.get(
                f"{self._target.api}/incidents?{query}",
                headers,
                timeout=_TIMEOUT,
                max_answer=_MAX_ANSWER,
            )
            incidents, has_more = read_incidents(answer.body)
            yield from incidents
            if not has_more:
                return


def read_incidents(body: bytes) -> tuple[list[Acknowledgement], bool]:
    """The acknowledgements of a page of incidents, and whether there are more pages.

    Raises `DeliveryFailed`.
    """
    try:
        page = orjson.loads(body)
        incidents = page["incidents"]
        acknowledged = [_read_incident(incident) for incident in incidents]
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError, ValueError):
        raise DeliveryFailed("PagerDuty's answer is not a list of incidents") from None
    return [entry for entry in acknowledged if entry is not None], bool(page.get("more"))


def _read_incident(incident: Mapping[str, Any]) -> Acknowledgement | None:
    """Who has acknowledged an incident last; None: nobody has."""
    if incident["status"] != "acknowledged" or not incident.get("acknowledgements"):
        return None
    last = max(incident["acknowledgements"], key=lambda entry: datetime.fromisoformat(entry["at"]))
    person = last["acknowledger"]
    author = describe_author(person.get("summary") or person.get("id"), "PagerDuty")
    at = datetime.fromisoformat(last["at"])
    return Acknowledgement(str(incident["incident_key"]), author, at)


def _sort_key(acknowledgement: Acknowledgement) -> tuple[str, str]:
    return str(acknowledgement.at), acknowledgement.group
