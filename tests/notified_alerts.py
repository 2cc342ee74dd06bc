"""Alerts in a database, and the process of notifications over them in a thread."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sql
from archiver.threads import start_thread
from moirae.alerts.event import make_fingerprint
from moirae.config import Settings
from moirae.config.settings import load_settings
from moirae.notify import run_notify
from sql.alerts import AlertDescriptionRow, AlertGateway, AlertLifetimeRow
from tests.workspaces import write_workspace

_TABLES = (
    "alerts changes notify_groups notify_log notify_held notifications notification_alerts "
    "receiver_states silences unread_input rules alert_notes tasks incidents incident_decisions"
).split()


def load_workspace(folder: Path, text: str) -> Settings:
    """A workspace in a folder, whose database is kept."""
    return load_settings(write_workspace(folder, text), {})


def clear(connection: sql.Connection) -> None:
    """Delete alerts and what was notified of them."""
    connection.execute(f"TRUNCATE {', '.join(_TABLES)} CASCADE".encode())
    connection.execute(b"UPDATE notify_state SET xid = NULL, change = NULL")


class Alerts:
    """Alerts by name, as the live process stores them."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = AlertGateway(connection)
        self._stored: dict[str, tuple[AlertDescriptionRow, AlertLifetimeRow]] = {}

    def fire(
        self,
        name: str,
        key: Mapping[str, Any] | None = None,
        *,
        age: float = 0.0,
        alert_id: UUID | None = None,
        annotations: Mapping[str, str] | None = None,
        **labels: str,
    ) -> UUID:
        """Store an alert that fired `age` seconds ago; again: as a new alert of its fingerprint."""
        now = datetime.now(UTC) - timedelta(seconds=age)
        number = alert_id or uuid4()
        description = AlertDescriptionRow(
            id=number,
            eid=number,
            rule=f"g/{name}",
            version="v",
            fingerprint=make_fingerprint(key or {}),
            key=key or {},
            labels={"alertname": name, **labels},
            annotations=annotations or {"summary": f"{name} is wrong"},
        )
        lifetime = AlertLifetimeRow(
            state="firing",
            starts_at=now,
            fired_at=now,
            last_at=now,
            ends_at=None,
            events=1,
            settled=None,
        )
        self._stored[_key(name, key)] = description, lifetime
        self._gateway.put([(description, lifetime)])
        return number

    def resolve(self, name: str, key: Mapping[str, Any] | None = None) -> UUID:
        """Store the end of an alert."""
        description, lifetime = self._stored[_key(name, key)]
        ended = replace(lifetime, state="resolved", ends_at=datetime.now(UTC))
        self._gateway.update({description.id: ended})
        return description.id

    def withdraw(self, name: str, key: Mapping[str, Any] | None = None) -> None:
        """Store that settling has not confirmed an alert."""
        self._gateway.withdraw([self._stored[_key(name, key)][0].id])


def _key(name: str, key: Mapping[str, Any] | None) -> str:
    return f"{name} {key}"


@contextmanager
def notifying(settings: Settings) -> Iterator[None]:
    """The process of notifications, in a thread."""
    stop = threading.Event()
    future = start_thread(lambda: run_notify(settings, stop, threading.Event()), "notify")
    try:
        yield
    finally:
        stop.set()
        future.result(20)
