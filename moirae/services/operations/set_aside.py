"""List what is set aside because it breaks its reader, and have it read again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from moirae.errors import NotFound, UsageError
from moirae.inspect import SetAsideStatus, is_live_available, list_set_aside
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation
from sql.archive import SetAsideGateway, Subject, UnitGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

RetriedKind = Literal["file", "stream", "relation", "topic"]
_MAX_NAMES = 1_000


class SetAsideBody(Arguments):
    """What to read again: some names, or all that match."""

    names: list[str] | None = Field(
        None, max_length=_MAX_NAMES, description="Names, as the list shows them."
    )
    kind: RetriedKind | None = Field(None, description="Only this kind.")
    stream: Name | None = Field(None, description="Only files of this stream.")
    all: bool = Field(False, description="Everything.")


class SetAsideSubject(Arguments):
    """A file, stream, relation or topic. `stream`: of a file."""

    kind: RetriedKind
    name: str
    stream: str = ""


class SetAsideSubjects(Arguments):
    """What was requested to be read again."""

    subjects: list[SetAsideSubject] = Field(max_length=10_000, description="As requested.")


@dataclass(frozen=True)
class RequestedSubject:
    """What will be read again. `stream`: of a file, else empty."""

    kind: str
    name: str
    stream: str


@dataclass(frozen=True)
class SetAsideOutcome:
    """What became of a request. `state`: `waiting`, `failed` again, or `read`.

    `reason`: of the last failure. `records`, `late`: of a file that was read; rows that are late
    cause no alert.
    """

    kind: str
    name: str
    stream: str
    state: Literal["waiting", "failed", "read"]
    reason: str | None = None
    records: int | None = None
    late: int | None = None


@dataclass(frozen=True)
class SetAsideProgress:
    """What became of requests. `live`: whether a live process carries them out."""

    outcomes: Sequence[SetAsideOutcome]
    live: bool


@operation("GET", "/set-aside", role="viewer")
def list_subjects(workspace: "LocalWorkspace") -> list[SetAsideStatus]:
    """List files, streams, relations, rules and topics that cannot be read, with the reason."""
    return list_set_aside(workspace.connection)


@operation("POST", "/set-aside/retry", role="operator")
def retry_subjects(workspace: "LocalWorkspace", body: SetAsideBody) -> list[RequestedSubject]:
    """Have what is set aside read again at once. The live process does it."""
    if not (body.names or body.kind or body.stream or body.all):
        raise UsageError("nothing selected: give names, a kind, a stream or all")
    gateway = SetAsideGateway(workspace.connection)
    requested: list[RequestedSubject] = []
    with workspace.connection.transaction():
        names: Sequence[str | None] = body.names or [None]
        for name in names:
            subjects = gateway.request_retry(kind=body.kind, stream=body.stream, name=name)
            if name is not None and not subjects:
                raise NotFound(f"{name!r} is not set aside: see `moirae set-aside list`")
            requested += [
                RequestedSubject(subject.kind, subject.name, subject.stream) for subject in subjects
            ]
    return requested


@operation("POST", "/set-aside/progress", role="viewer", changes=False)
def show_retries(workspace: "LocalWorkspace", body: SetAsideSubjects) -> SetAsideProgress:
    """Show what became of requests to read again what was set aside."""
    rows = {row.subject: row for row in SetAsideGateway(workspace.connection).list_all()}
    outcomes: list[SetAsideOutcome] = []
    for requested in body.subjects:
        row = rows.get(Subject(requested.kind, requested.name, requested.stream))
        if row is None:
            outcomes.append(_describe_read(workspace, requested))
            continue
        state: Literal["waiting", "failed"] = "waiting" if row.retry_requested else "failed"
        outcomes.append(
            SetAsideOutcome(
                requested.kind, requested.name, requested.stream, state, reason=row.reason
            )
        )
    return SetAsideProgress(outcomes, is_live_available(workspace.connection))


def _describe_read(workspace: "LocalWorkspace", subject: SetAsideSubject) -> SetAsideOutcome:
    records = late = None
    if subject.kind == "file":
        counts = UnitGateway(workspace.connection).list_counts(subject.stream, [subject.name])
        if counts:
            records, late = counts[0].read, counts[0].late
    return SetAsideOutcome(
        subject.kind, subject.name, subject.stream, "read", records=records, late=late
    )
