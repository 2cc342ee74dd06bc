"""Batches of the landing folder as source units: what was posted, or handed over by `moirae ingest`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from archiver.units import Unit
from moirae.landing import Landed, Landing
from moirae.live.sources import files
from moirae.streams import infer_format

# Bytes of batches that are taken at a time: bounds how long that takes, and how much is repeated after a crash.
_ROUND_BYTES = 64 << 20


class Landings:
    """The landing folders of all streams."""

    def __init__(self, home: Path, streams: Iterable[str]) -> None:
        self._landings = {name: Landing(home, name) for name in sorted(streams)}

    def waiting(self) -> dict[str, list[Landed]]:
        """All batches that wait now, by stream, in order."""
        listed = {name: landing.waiting() for name, landing in self._landings.items()}
        return {name: batches for name, batches in listed.items() if batches}

    def names(self, stream: str) -> set[str]:
        """The names of a stream's batches that wait, as source units."""
        return {batch.name for batch in self._landings[stream].waiting()}

    def unread(self, stream: str) -> bool:
        """Whether a stream has batches that wait."""
        return bool(self._landings[stream].waiting())

    def forget(self, taken: Mapping[str, Sequence[Landed]]) -> None:
        """These batches are archived."""
        for stream, batches in taken.items():
            self._landings[stream].forget(batches)


def one_round(waiting: Mapping[str, Sequence[Landed]]) -> dict[str, list[Landed]]:
    """The first batches of each stream, as many as are taken at a time, but at least one."""
    taken: dict[str, list[Landed]] = {}
    size = 0
    for stream, batches in waiting.items():
        for batch in batches:
            if size and size + batch.size > _ROUND_BYTES:
                return taken
            size += batch.size
            taken.setdefault(stream, []).append(batch)
    return taken


def units(taken: Mapping[str, Sequence[Landed]]) -> Sequence[Unit]:
    """The batches as units."""
    return [
        files.unit(stream, batch.name, infer_format(batch.path.name), batch.path)
        for stream, batches in taken.items()
        for batch in batches
    ]
