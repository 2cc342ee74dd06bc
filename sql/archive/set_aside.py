"""What breaks its reader: files, streams, relations, rules and topics that are set aside."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from sql.gateway import Gateway
from sql.values import replace_nul

SubjectKind = Literal["file", "stream", "relation", "rule", "topic"]


class Subject(NamedTuple):
    """What is read. `stream`: of a file; empty for the other kinds."""

    kind: SubjectKind
    name: str
    stream: str = ""


@dataclass(frozen=True, slots=True)
class SetAsideRow:
    """A subject that could not be read at the last try.

    `fingerprint` differs once the subject has changed. `tries`: failed ones since
    `first_failed_at`. `set_aside_at` None: it is still tried at intervals.
    """

    kind: SubjectKind
    stream: str
    name: str
    reason: str
    fingerprint: str
    tries: int
    first_failed_at: datetime
    last_failed_at: datetime
    set_aside_at: datetime | None
    retry_requested: bool

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, self.name, self.stream)


@dataclass(frozen=True, slots=True)
class _SubjectRow:
    kind: SubjectKind
    stream: str
    name: str


class SetAsideGateway(Gateway):
    queries = "set_aside"

    def list_all(self) -> list[SetAsideRow]:
        """All subjects that failed at the last try, set aside or not, the longest first."""
        return self._records(SetAsideRow, "list_all")

    def put(self, row: SetAsideRow) -> None:
        """Store a failure in place of the previous one; a requested retry is done with it."""
        self._execute(
            "put",
            kind=row.kind,
            stream=row.stream,
            name=row.name,
            reason=replace_nul(row.reason),
            fingerprint=row.fingerprint,
            tries=row.tries,
            first_failed_at=row.first_failed_at,
            last_failed_at=row.last_failed_at,
            set_aside_at=row.set_aside_at,
        )

    def delete(self, subject: Subject) -> None:
        """Forget the failures of a subject."""
        self._execute("delete", kind=subject.kind, stream=subject.stream, name=subject.name)

    def request_retry(
        self,
        *,
        kind: SubjectKind | None = None,
        stream: str | None = None,
        name: str | None = None,
    ) -> list[Subject]:
        """Have what matches tried again at once; None: any. Returns the subjects."""
        rows = self._records(_SubjectRow, "request_retry", kind=kind, stream=stream, name=name)
        return [Subject(row.kind, row.name, row.stream) for row in rows]
