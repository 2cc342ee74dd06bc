"""Recalls over `alerts`: they are read again if the alerts before their event change until settled."""

from collections.abc import Collection, Iterable

import sql
from archiver.times import Micros
from moirae.alerts import AlertStream
from moirae.rules import ALERTS
from recall.ledger import Ledger
from recall.relation_digests import has_read_valid_rows
from recall.requests import RecallRequest, SqlQuestion, task_id
from sql.recalls import UnsettledReadGateway, UnsettledReadRow

_BATCH_TASKS = 500


class UnsettledReads:
    """The recalls that may have read alerts before these were settled.

    `declared`: the names of declared relations; if `alerts` is among them, it is not that of rules.
    """

    def __init__(self, connection: sql.Connection, declared: Collection[str]) -> None:
        self._connection = connection
        self._gateway = UnsettledReadGateway(connection)
        self._alerts = AlertStream(connection)
        self._ledger = Ledger(connection)
        self._is_active = ALERTS not in declared

    def add(self, requests: Iterable[RecallRequest]) -> None:
        """Note those of new requests that read alerts. The caller owns the transaction."""
        if not self._is_active:
            return
        tasks = []
        for request in requests:
            question = request.question
            if isinstance(question, SqlQuestion) and ALERTS in question.relations:
                eid = request.event.eid
                tasks.append(task_id(request.rule, request.version, request.recall, eid))
        if tasks:
            self._gateway.add(tasks)

    def settle(self, watermark: Micros | None) -> bool:
        """Restart the answered recalls that have read other alerts than those that are settled.

        `watermark`: the event time before which alerts are settled; None: none are. Returns whether
        there may be more of them.
        """
        if watermark is None:
            return False
        rows = self._gateway.list_settled(watermark, _BATCH_TASKS)
        if not rows:
            return False
        changed = self._find_changed([row for row in rows if row.state == "done"])
        with self._connection.transaction():
            if changed:
                self._ledger.restart_answered([row.id for row in changed])
            # What has not begun, or begins again, reads what is settled.
            self._gateway.remove([row.id for row in rows])
        return bool(changed) or len(rows) == _BATCH_TASKS

    def _find_changed(self, done: list[UnsettledReadRow]) -> list[UnsettledReadRow]:
        if not done or not self._is_active:
            return []
        alerts = self._alerts.read_valid()
        return [row for row in done if not has_read_valid_rows(row.seen, ALERTS, alerts, row.ts)]

    def has_open(self, watermark: Micros | None) -> bool:
        """Whether recalls have not ended yet that may have read other alerts."""
        return watermark is not None and self._gateway.has_open(watermark)
