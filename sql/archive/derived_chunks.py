"""Chunks of derived streams that are archived."""

from collections.abc import Collection
from dataclasses import dataclass

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ReadableChunkRow:
    """An archived chunk of a version of a derived stream."""

    stream: str
    version: str
    chunk: int


@dataclass(frozen=True, slots=True)
class DerivedChunkRow:
    """A chunk of a derived stream. `tries`: attempts to archive it since it was archived."""

    chunk: int
    is_archived: bool
    tries: int


@dataclass(frozen=True, slots=True)
class DerivedVersionRow:
    """A version of a derived stream."""

    stream: str
    version: str


@dataclass(frozen=True, slots=True)
class DerivedProgressRow:
    """Number of archived chunks and rows. `error`: the last error by name; None: there is none."""

    stream: str
    version: str
    chunks: int
    rows: int
    error: str | None


class DerivedChunkGateway(Gateway):
    """Chunks of derived streams, identified by stream, version and chunk."""

    queries = "derived_chunks"

    def list_readable(self) -> list[ReadableChunkRow]:
        """The archived chunks that have not expired, in no order."""
        return self._records(ReadableChunkRow, "list_readable")

    def list_of_version(self, stream: str, version: str) -> list[DerivedChunkRow]:
        """The chunks of a version that are archived or were attempted, in no order."""
        return self._records(DerivedChunkRow, "list_of_version", stream=stream, version=version)

    def begin_attempt(self, stream: str, version: str, chunk: int) -> None:
        """Count an attempt to compute a chunk."""
        self._execute("begin_attempt", stream=stream, version=version, chunk=chunk)

    def undo_attempt(self, stream: str, version: str, chunk: int) -> None:
        """Undo the count of an attempt that an orderly shutdown interrupted."""
        self._execute("undo_attempt", stream=stream, version=version, chunk=chunk)

    def set_error(self, stream: str, version: str, chunk: int, *, error: str) -> None:
        """Record why a chunk could not be computed."""
        values = {"stream": stream, "version": version, "chunk": chunk}
        self._execute("set_error", **values, error=replace_nul(error))

    def complete(
        self, stream: str, version: str, chunk: int, *, row_count: int, seconds: float
    ) -> None:
        """Record that all rows of a chunk are archived. `seconds`: time spent."""
        values = {"stream": stream, "version": version, "chunk": chunk}
        self._execute("complete", **values, rows=row_count, seconds=seconds)

    def list_versions(self) -> list[DerivedVersionRow]:
        """The versions that are archived or were attempted, in no order."""
        return self._records(DerivedVersionRow, "list_versions")

    def delete_version(self, stream: str, version: str) -> None:
        """Delete all chunks of a version."""
        self._execute("delete_version", stream=stream, version=version)

    def list_retained_chunks(self, grace_seconds: float) -> list[int]:
        """The IDs of chunks that have not expired, or less than `grace_seconds` ago."""
        return self._column("list_retained_chunks", grace_seconds=grace_seconds)

    def delete_except(self, retained: Collection[int]) -> None:
        """Delete the chunks, of all streams, whose IDs are not among these."""
        self._execute("delete_except", retained=list(retained))

    def list_progress(self) -> list[DerivedProgressRow]:
        """Archived chunks and rows of each version, by stream."""
        return self._records(DerivedProgressRow, "list_progress")
