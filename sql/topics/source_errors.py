"""Streams whose topic cannot be read now."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sql.gateway import Gateway

SourceErrorKind = Literal["away", "missing", "failed"]


@dataclass(frozen=True, slots=True)
class SourceErrorRow:
    """Why the topic of a stream cannot be read. `since`: when this kind of error was first seen."""

    stream: str
    kind: SourceErrorKind
    error: str
    since: datetime


class SourceErrorGateway(Gateway):
    queries = "source_errors"

    def list_all(self) -> list[SourceErrorRow]:
        """All errors, by stream."""
        return self._records(SourceErrorRow, "list_all")

    def put(self, stream: str, kind: SourceErrorKind, error: str) -> None:
        """Store why the topic of a stream cannot be read."""
        self._execute("put", stream=stream, kind=kind, error=error)

    def delete(self, stream: str) -> None:
        """Record that the topic of a stream can be read."""
        self._execute("delete", stream=stream)

    def delete_others(self, streams: Collection[str]) -> None:
        """Forget the errors of all streams but these."""
        self._execute("delete_others", streams=list(streams))
