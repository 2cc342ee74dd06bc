"""The batches of the landing folders: ingested in order, deleted once they are archived."""

from collections.abc import Callable, Mapping, Sequence, Set
from itertools import chain

from moirae.live.ingest import Ingest
from moirae.live.sources import LandingFolders, select_batches
from moirae.live.unit_failures import UnitFailures
from moirae.runtime.storage import LandedBatch

_MICROS_PER_SECOND = 1_000_000


class LandedInput:
    """Posted batches and those of `moirae ingest`. Batches that cannot be read stay."""

    def __init__(
        self,
        landing_folders: LandingFolders,
        ingest: Ingest,
        failures: UnitFailures,
        is_waiting: Callable[[str], bool],
    ) -> None:
        """`is_waiting`: of a stream, see `ArchiveWriter.is_waiting`."""
        self._landing_folders = landing_folders
        self._ingest = ingest
        self._failures = failures
        self._is_waiting = is_waiting
        self._names: set[tuple[str, str]] | None = None  # those of a drain; None: all

    def limit_to_present(self) -> None:
        """Ingest only the batches that are in the landing folders now, no later ones: a drain."""
        names: set[tuple[str, str]] = set()
        for stream, batches in self._landing_folders.pending_batches().items():
            names.update((stream, batch.name) for batch in batches)
        self._names = names

    def ingest(self) -> None:
        """Ingest the first batches of the landing folders that can be read now."""
        landed = self._list_batches()
        if self._failures.has_failures:
            # Batches that must wait do not keep others from being selected.
            readable = self._failures.select_readable(self._landing_folders.make_units(landed))
            names = {(unit.stream, unit.name) for unit in readable}
            landed = _select_names(landed, names)
        self._ingest_batches(select_batches(landed))

    def has_unread(self) -> bool:
        """Whether landing folders have batches that are neither archived nor set aside."""
        return any(self.oldest_unread(stream) is not None for stream in self._list_batches())

    def oldest_unread(self, stream: str) -> float | None:
        """When the oldest batch of a stream landed that is neither archived nor set aside.

        In seconds since 1970; None: there is none.
        """
        for batch in self._list_batches().get(stream, ()):
            (unit,) = self._landing_folders.make_units({stream: [batch]})
            if not self._failures.is_set_aside(unit):
                return batch.modified / _MICROS_PER_SECOND
        return None

    def _list_batches(self) -> dict[str, list[LandedBatch]]:
        pending: dict[str, list[LandedBatch]] = {}
        for stream, batches in self._landing_folders.pending_batches().items():
            if not self._is_waiting(stream):
                pending[stream] = batches
        if self._names is None:
            return pending
        return _select_names(pending, self._names)

    def _ingest_batches(self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> None:
        """Archive and evaluate batches of the landing folders, then delete those archived."""
        if batches_by_stream:
            batches = chain.from_iterable(batches_by_stream.values())
            arrived_at = [batch.modified / _MICROS_PER_SECOND for batch in batches]
            units = self._landing_folders.make_units(batches_by_stream)
            postponed = self._ingest.ingest_units(units, arrived_at)
            names = {(unit.stream, unit.name) for unit in units}
            names.difference_update((unit.stream, unit.name) for unit in postponed)
            self._landing_folders.remove(_select_names(batches_by_stream, names))


def _select_names(
    batches_by_stream: Mapping[str, Sequence[LandedBatch]], names: Set[tuple[str, str]]
) -> dict[str, list[LandedBatch]]:
    """The batches with a stream and name among some, by stream; without streams that have none."""
    selected: dict[str, list[LandedBatch]] = {}
    for stream, batches in batches_by_stream.items():
        named = [batch for batch in batches if (stream, batch.name) in names]
        if named:
            selected[stream] = named
    return selected
