"""Subjects that break their reader: tried again at intervals, then set aside.

A file, stream, relation, rule or topic is set aside after 3 failed tries over at least a minute. It
is read again once it has changed, or on request.
"""

import time
from collections.abc import Container
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from archiver.periodic import Clock, Timer
from sql.archive import SetAsideGateway, SetAsideRow, Subject

_LOG = structlog.get_logger()

_MIN_TRIES = 3
_MIN_FAILING_TIME = timedelta(minutes=1)
_TRY_INTERVAL = timedelta(seconds=30)
_REFRESH_INTERVAL = 1.0  # seconds between looks for retries that were requested
_MAX_REASON_LENGTH = 2_000  # characters


def add_failure(
    previous: SetAsideRow | None, subject: Subject, reason: str, fingerprint: str, now: datetime
) -> SetAsideRow:
    """The failures of a subject, with one more. A changed subject begins anew."""
    if previous is None or previous.fingerprint != fingerprint:
        return SetAsideRow(
            kind=subject.kind,
            stream=subject.stream,
            name=subject.name,
            reason=reason,
            fingerprint=fingerprint,
            tries=1,
            first_failed_at=now,
            last_failed_at=now,
            set_aside_at=None,
            retry_requested=False,
        )
    tries = previous.tries + 1
    set_aside_at = previous.set_aside_at
    if tries >= _MIN_TRIES and now - previous.first_failed_at >= _MIN_FAILING_TIME:
        set_aside_at = set_aside_at or now
    return replace(
        previous,
        reason=reason,
        tries=tries,
        last_failed_at=now,
        set_aside_at=set_aside_at,
        retry_requested=False,
    )


def may_try(row: SetAsideRow | None, fingerprint: str, now: datetime) -> bool:
    """Whether a subject is to be read now. `row`: its failures; None: the last try succeeded."""
    if row is None or row.retry_requested or row.fingerprint != fingerprint:
        return True
    if row.set_aside_at is not None:
        return False
    # A clock that was set back does not delay a try.
    return not timedelta(0) <= now - row.last_failed_at < _TRY_INTERVAL


class SetAside:
    """The subjects of the live process that failed; stored, so that a restart changes nothing.

    Its methods may be called whenever the connection of the gateway may be used.
    """

    def __init__(self, gateway: SetAsideGateway, clock: Clock = time.monotonic) -> None:
        self._gateway = gateway
        self._timer = Timer(_REFRESH_INTERVAL, clock=clock)
        self._rows: dict[Subject, SetAsideRow] = {}
        self._load()

    def may_try(self, subject: Subject, fingerprint: str, now: datetime) -> bool:
        """Whether a subject is to be read now: not while it waits for a try or is set aside."""
        self._refresh()
        return may_try(self._rows.get(subject), fingerprint, now)

    def is_set_aside(self, subject: Subject, fingerprint: str) -> bool:
        """Whether a subject is set aside and has not changed since."""
        self._refresh()
        row = self._rows.get(subject)
        return row is not None and row.set_aside_at is not None and row.fingerprint == fingerprint

    def has_failed(self, subject: Subject) -> bool:
        """Whether the last try of a subject failed."""
        return subject in self._rows

    def record_failure(
        self, subject: Subject, reason: str, fingerprint: str, now: datetime
    ) -> SetAsideRow:
        """Store that a try failed. `reason`: for the user, first the fact."""
        previous = self._rows.get(subject)
        row = add_failure(previous, subject, reason[:_MAX_REASON_LENGTH], fingerprint, now)
        self._gateway.put(row)
        self._rows[subject] = row
        self._log_failure(row)
        return row

    def record_success(self, subject: Subject) -> SetAsideRow | None:
        """Forget the failures of a subject that was read; returns them, None if there were none."""
        row = self._rows.pop(subject, None)
        if row is not None:
            self._gateway.delete(subject)
        return row

    def forget_undeclared(self, streams: Container[str], relations: Container[str]) -> None:
        """Forget the failures of streams and relations that are no longer declared."""
        for subject in list(self._rows):
            if subject.kind == "relation":
                is_declared = subject.name in relations
            else:
                is_declared = (subject.stream or subject.name) in streams
            if subject.kind != "rule" and not is_declared:
                self.record_success(subject)

    def list_failed(self) -> list[SetAsideRow]:
        """The subjects whose last try failed, set aside or not."""
        return list(self._rows.values())

    def _log_failure(self, row: SetAsideRow) -> None:
        details = {"kind": row.kind, "name": row.name, "error": row.reason, "tries": row.tries}
        if row.stream:
            details["stream"] = row.stream
        if row.set_aside_at is None:
            _LOG.warning("cannot be read, trying again", action="read_failed", **details)
        else:
            _LOG.error(
                "set aside: read again when it changes, or by `moirae set-aside retry`",
                action="set_aside",
                **details,
            )

    def _refresh(self) -> None:
        """Look for requested retries at intervals, if anything has failed."""
        if self._rows and self._timer.is_due():
            self._timer.restart()
            self._load()

    def _load(self) -> None:
        self._rows = {row.subject: row for row in self._gateway.list_all()}
