"""Corpora: the past events of each version of a rule, in the order of their numbers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.events import SettledEventIdRow
from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class AddedEventRow:
    """An event that entered a corpus. `ts`: event time in microseconds."""

    rule: str
    version: str
    ts: int


@dataclass(frozen=True, slots=True)
class NumberedEventRow:
    """An event of a corpus with its contexts. `ts`: event time in microseconds."""

    number: int
    eid: UUID
    ts: int
    contexts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IndexedCountsRow:
    """Numbers of events of a corpus: in all, and those in its index."""

    events: int
    indexed: int


@dataclass(frozen=True, slots=True)
class CorpusNumbersRow:
    """Of all corpora.

    `last`: the highest number, here or in the archive; 0 before the first. `deleted_to`: up to
    which events may have been deleted here; the archive has them.
    """

    last: int
    deleted_to: int


class CorpusGateway(Gateway):
    """Events with a corpus number. One sequence numbers the events of all corpora."""

    queries = "corpora"

    def list_ids(self, last_number: int) -> list[SettledEventIdRow]:
        """The events of all corpora up to a number, in no order."""
        return self._records(SettledEventIdRow, "list_ids", last_number=last_number)

    def lock_numbering(self) -> None:
        """Take the lock of sequence numbers until the end of the transaction.

        To be held while settled events are stored or corpus events are numbered, and while they are
        read in order of their numbers: no number becomes visible after a higher one was read.
        """
        self._execute("lock_numbering")

    def add_settled(
        self, rules_of_every_event: Collection[str], rules_of_unfired: Collection[str]
    ) -> list[AddedEventRow]:
        """Number settled contexts whose alert has fired, in event order.

        Only the first event of an alert, but every event for `rules_of_every_event`; only of alerts
        that have fired, but of all for `rules_of_unfired`.
        """
        return self._records(
            AddedEventRow,
            "add_settled",
            rules_of_every_event=list(rules_of_every_event),
            rules_of_unfired=list(rules_of_unfired),
        )

    def add_past(self, rule: str, version: str, eids: Collection[UUID]) -> None:
        """Number events of the past in event order, unless they are numbered."""
        self._execute("add_past", rule=rule, version=version, eids=list(eids))

    def list_after(self, rule: str, version: str, number: int) -> list[NumberedEventRow]:
        """The events of a corpus after a number, by number."""
        return self._records(
            NumberedEventRow, "list_after", rule=rule, version=version, after=number
        )

    def has_later(self, rule: str, version: str, *, number: int, before: datetime) -> bool:
        """Whether a corpus has events before an event time with a number above `number`."""
        values = {"rule": rule, "version": version, "number": number, "before": before}
        return bool(self._value("has_later", **values))

    def count_indexed(
        self, rule: str, version: str, *, number: int, before: datetime | None
    ) -> IndexedCountsRow:
        """Count the events of a corpus before an event time, and those numbered up to `number`.

        `before` None: there are no events.
        """
        values = {"rule": rule, "version": version, "number": number, "before": before}
        counts = self._record(IndexedCountsRow, "count_indexed", **values)
        assert counts is not None
        return counts

    def numbers(self) -> CorpusNumbersRow:
        """The highest number, and up to which number events may have been deleted."""
        numbers = self._record(CorpusNumbersRow, "get_numbers")
        assert numbers is not None
        return numbers
