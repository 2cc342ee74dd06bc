"""Input streams: how far each has been read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """How far a stream or partition has been read.

    `newest`: the newest event time read; `newest_not_ahead`: of the rows that were not ahead of the
    clock. `advanced`: the event time it was advanced to without data; `advanced_ahead`: to where
    the watermark has followed rows ahead of the clock. None: not yet.
    """

    newest: datetime | None
    advanced: datetime | None
    newest_not_ahead: datetime | None
    advanced_ahead: datetime | None


@dataclass(frozen=True, slots=True)
class StreamRow(ProgressRow):
    """How far a stream has been read.

    `previous_names`: that it had before it was renamed, oldest first. `clock`: the newest at which a
    source unit was first read; None: none was. `keys_ahead`: as `put_keys_ahead` stored them.
    `first`: the event time of its first row; None: see `put_first`.
    """

    name: str
    previous_names: Sequence[str]
    clock: datetime | None
    keys_ahead: Sequence[Mapping[str, Any]]
    first: datetime | None


@dataclass(frozen=True, slots=True)
class SettledStreamRow:
    """Up to which append the ledger counts the rows of a stream.

    `open_units`: the source units that may be read again, with rows of these appends.
    """

    name: str
    appends: int
    open_units: Sequence[int]


class StreamGateway(Gateway):
    queries = "streams"

    def list_all(self) -> list[StreamRow]:
        """All streams that were ever declared, in no particular order."""
        return self._records(StreamRow, "list_all")

    def insert(self, name: str) -> None:
        """Register a declared stream, unless it is registered."""
        self._execute("insert", name=name)

    def put_first(self, name: str, first: datetime) -> None:
        """Store the event time of the first row of a stream, before which none can come."""
        self._execute("put_first", name=name, first=first)

    def raise_newest(self, name: str, newest: datetime, newest_not_ahead: datetime | None) -> None:
        """Raise the newest event times of a stream; lower ones are ignored.

        `newest_not_ahead`: of rows that were not ahead of the clock; None: there was none.
        """
        self._execute("raise_newest", name=name, newest=newest, newest_not_ahead=newest_not_ahead)

    def raise_clock(self, name: str, clock: datetime) -> None:
        """Raise the clock at which source units of a stream are first read."""
        self._execute("raise_clock", name=name, clock=clock)

    def list_appends(self) -> dict[str, int | None]:
        """The number of the last append of each stream whose rows the ledger counts.

        None: it is not known.
        """
        return self._pairs("list_appends")

    def list_settled(self) -> list[SettledStreamRow]:
        """Which rows no source will be read again for, by stream."""
        return self._records(SettledStreamRow, "list_settled")

    def put_appends(self, name: str, appends: int) -> None:
        """The ledger counts the rows of a stream up to an append."""
        self._execute("put_appends", name=name, appends=appends)

    def put_keys_ahead(self, name: str, keys: Sequence[Mapping[str, Any]]) -> None:
        """Replace the keys whose rows are furthest ahead of the clock."""
        self._execute("put_keys_ahead", name=name, keys=Jsonb(replace_nul(keys)))

    def advance(self, name: str, event_time: datetime, *, ahead: bool) -> None:
        """Advance a stream without data; a lower event time is ignored.

        `ahead`: its watermark follows rows ahead of the clock.
        """
        if ahead:
            self._execute("advance_ahead", name=name, advanced=event_time)
        else:
            self._execute("advance", name=name, advanced=event_time)
