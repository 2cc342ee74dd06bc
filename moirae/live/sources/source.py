"""What the live process knows of a source, whatever its kind."""

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Protocol

from archiver.ingest import SourceUnit
from moirae.live.sources.archiving import InputArchiving


class Source(Protocol):
    """The input of some streams. A record that was archived is not archived again.

    In a drain only the input that exists at the start counts. What is set aside is not unread.
    """

    @property
    @abstractmethod
    def streams(self) -> Collection[str]:
        """The streams that have this source."""

    @property
    def failure(self) -> BaseException | None:
        """An error that ends the process."""
        return None

    def start(self) -> None:
        """Begin to read. Raises `MoiraeError`."""
        return

    @abstractmethod
    def update(self) -> None:
        """Look for new input and ingest it, or let a thread do so. The lock is not held.

        Raises `Unreachable`.
        """

    @abstractmethod
    def has_unread(self, stream: str, partition: str | None = None) -> bool:
        """Whether a stream, or a partition of it, has input to archive. The lock is held."""

    @abstractmethod
    def oldest_unread(self, stream: str) -> float | None:
        """When its oldest unread input arrived, in seconds since 1970. The lock is held."""

    def stop(self) -> None:
        """End reading. The lock is not held."""
        return


class UnitSource(Source, Protocol):
    """A source of units that are archived in this process, or on executors as files.

    A unit has the same name and content each time it is discovered, until it is settled: what a
    killed process had archived before is recognised by the ledger.
    """

    _archiving: InputArchiving

    @abstractmethod
    def discover(self) -> Sequence[SourceUnit]:
        """The next units, in the order that decides which rows are late. The lock is held."""

    @abstractmethod
    def settle(self, archived: Sequence[SourceUnit]) -> None:
        """Have done with those of the discovered units that are archived. The lock is held."""

    def ingest_next(self) -> None:
        """Discover units, ingest them and settle those that are archived. The lock is held."""
        units = self.discover()
        postponed: Sequence[SourceUnit] = []
        if units:
            postponed = self._archiving.ingest.ingest_units(units)
        names = {(unit.stream, unit.name) for unit in postponed}
        self.settle([unit for unit in units if (unit.stream, unit.name) not in names])

    def update(self) -> None:
        with self._archiving.lock:
            self.ingest_next()
