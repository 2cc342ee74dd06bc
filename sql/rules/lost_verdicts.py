"""Rows over which rules have no verdict, because they exceeded their limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class KnownLostRow:
    """A row that a version of a rule has lost. `ts`: its event time."""

    rule: str
    version: str
    stream: str
    ts: datetime
    row_hash: str


@dataclass(frozen=True, slots=True)
class LostVerdictRow:
    """A row that a version of a rule has lost, with its values. `lost_at`: wall-clock time."""

    rule: str
    version: str
    stream: str
    ts: datetime
    row: Mapping[str, Any]
    reason: str
    lost_at: datetime


@dataclass(frozen=True, slots=True)
class LostVerdictCounts:
    """The rows that the version of a rule in use has lost.

    `first_ts`, `last_ts`: their event times. `last_at`: when the last one was lost, and `reason`.
    """

    rule: str
    rows: int
    first_ts: datetime
    last_ts: datetime
    last_at: datetime
    reason: str


class LostVerdictGateway(Gateway):
    queries = "lost_verdicts"

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows. Each has the fields of `LostVerdictRow` but `lost_at`, and `row_hash`."""
        self._execute_rows("add", rows)

    def delete_oldest(self, rule: str, version: str, *, retained: int) -> None:
        """Delete the rows of a version except the newest `retained` ones."""
        self._execute("delete_oldest", rule=rule, version=version, retained=retained)

    def list_known(self) -> list[KnownLostRow]:
        """The rows that the versions in use have lost, in no order."""
        return self._records(KnownLostRow, "list_known")

    def list_newest(self, rule: str, limit: int) -> list[LostVerdictRow]:
        """The rows that the versions of a rule have lost, newest first."""
        return self._records(LostVerdictRow, "list_newest", rule=rule, limit=limit)

    def count_by_rule(self, since: datetime | None = None) -> list[LostVerdictCounts]:
        """The counts of rules that lost rows, the largest first. `since`: lost from then on."""
        return self._records(LostVerdictCounts, "count_by_rule", since=since)
