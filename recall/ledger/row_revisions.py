"""Answers as revision streams in PostgreSQL: append what has changed.

The caller owns the transaction: an answer, its row revisions and the position of its task are
committed together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from uuid import UUID

import sql
from archiver.times import Micros, from_micros
from recall.revisions import KeyedRows, RowChange, diff
from sql.stages import (
    AppendedRevisions,
    ChangeJson,
    RowRevisionGateway,
)


@dataclass(frozen=True)
class EventOutput:
    """The rows of one recall or stage (`name`) about one event, in the stream of its rule."""

    rule: str
    version: str
    name: str
    eid: UUID
    ts: Micros


class RevisionStreams:
    """The revision streams, over one connection."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = RowRevisionGateway(connection)

    def append(self, output: EventOutput, changes: Sequence[RowChange]) -> None:
        """Store changes as the next revisions of the stream.

        A transaction that appends to several streams must do so in the order of (rule, name).
        """
        self.append_all([(output, changes)])

    def append_all(
        self, outputs: Iterable[tuple[EventOutput, Sequence[RowChange]]]
    ) -> list[AppendedRevisions]:
        """Store changes of several events and streams, in the order of all transactions."""
        changes_by_stream: dict[tuple[str, str], list[ChangeJson]] = {}
        for output, changes in outputs:
            stored = changes_by_stream.setdefault((output.rule, output.name), [])
            ts = from_micros(output.ts).isoformat()
            for change in changes:
                event = str(output.eid), output.version, ts
                stored.append((*event, change.op, change.row_key, change.row, change.old_row))
        new_revisions = []
        for (rule, name), stored in sorted(changes_by_stream.items(), key=itemgetter(0)):
            revisions = self._gateway.append(rule, name, stored)
            if revisions is not None:
                new_revisions.append(revisions)
        return new_revisions

    def current_rows(self, output: EventOutput) -> dict[str, Any]:
        """The rows by key after the last revision."""
        rows = self._gateway.list_current(output.rule, output.version, output.eid, output.name)
        return {row.row_key: row.row for row in rows}

    def retract(self, output: EventOutput) -> None:
        """Delete all rows."""
        nothing: KeyedRows = {}
        self.append(output, diff(self.current_rows(output), nothing))
