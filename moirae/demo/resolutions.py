"""Resolutions of the simulator's past failures, recorded as notes of their alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import UUID

import sql
from moirae.alerts import add_note
from moirae.demo.causes import FailureKind
from moirae.demo.failures import SimulatedFailure
from sql.alerts import NewAlertNote
from sql.reports import DemoGateway

RULES_BY_KIND: Mapping[FailureKind, str] = {
    "overload": "testbed/NodeOverloaded",
    "memory": "testbed/MemoryExhausted",
    "network": "testbed/NodeUnreachable",
    "silent": "testbed/NodeSilent",
}
"""The rule that detects failures of a kind."""

ALERT_GRACE = timedelta(minutes=15)
"""An alert starts at most this long after the end of its failure: silence is detected late."""


def record_resolutions(connection: sql.Connection, failures: Iterable[SimulatedFailure]) -> int:
    """Record the resolution of each past failure with its first alert, as an operator does.

    Returns the number of resolutions.
    """
    count = 0
    for failure in failures:
        if not failure.resolution:
            continue
        alert_id = _find_first_alert(connection, failure)
        if alert_id is None:
            continue
        note = NewAlertNote(
            kind="resolution",
            author=failure.resolved_by,
            text=failure.resolution,
            tag=failure.tag,
        )
        add_note(connection, alert_id, note)
        count += 1
    return count


def _find_first_alert(connection: sql.Connection, failure: SimulatedFailure) -> UUID | None:
    """The first alert of a failure, or None if no rule detected it."""
    rule = RULES_BY_KIND[failure.kind]
    until = failure.ends + ALERT_GRACE
    return DemoGateway(connection).find_first_alert(
        rule, failure.host, starts=failure.starts, until=until
    )
