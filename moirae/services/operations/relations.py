"""List relations, and have a version used that is held back."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from moirae.config import Relation, TableSource
from moirae.errors import NotFound
from moirae.services.models import Name
from moirae.services.operation import operation
from sql.archive import HeldRelationRow, RelationGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace


@dataclass(frozen=True)
class HeldVersion:
    """A version that is held back, as it has far fewer rows than the one in use.

    `accepted`: the live process will use it all the same.
    """

    rows: int
    held_at: datetime
    accepted: bool


@dataclass(frozen=True)
class RelationState:
    """A declared relation. `rows`, `read_at`: of the version in use; null: none was read yet.

    `error`: why its source cannot be read.
    """

    relation: str
    source: str
    state: Literal["unread", "in use", "held back", "error"]
    rows: int | None
    read_at: datetime | None
    held_version: HeldVersion | None
    error: str | None


@operation("GET", "/relations", role="viewer")
def list_relations(workspace: "LocalWorkspace") -> list[RelationState]:
    """List declared relations: rows in use, a version that is held back, errors."""
    gateway = RelationGateway(workspace.connection)
    sources = {source.relation: source for source in gateway.list_sources()}
    held_versions = {row.relation: row for row in gateway.list_held()}
    errors = {row.relation: row.error for row in gateway.list_errors()}
    relations: list[RelationState] = []
    for name, declared in workspace.settings.relations.items():
        source = sources.get(name)
        relations.append(
            RelationState(
                relation=name,
                source=_describe_source(declared),
                state=_choose_state(name, sources, held_versions, errors),
                rows=None if source is None else source.rows,
                read_at=None if source is None else source.read_at,
                held_version=_describe_held(held_versions.get(name)),
                error=errors.get(name),
            )
        )
    return relations


@operation("POST", "/relations/{relation}/accept", role="operator")
def accept_relation(workspace: "LocalWorkspace", relation: Name) -> HeldVersion:
    """Have the version of a relation used that is held back. The live process does it."""
    version = _describe_held(RelationGateway(workspace.connection).accept_held(relation))
    if version is None:
        raise NotFound(
            f"no version of a relation {relation!r} is held back: see `moirae relations list`"
        )
    return version


def _describe_source(relation: Relation) -> str:
    source = relation.source
    return f"table {source.table}" if isinstance(source, TableSource) else source.file


def _choose_state(
    name: str,
    sources: Mapping[str, object],
    held_versions: Mapping[str, object],
    errors: Mapping[str, object],
) -> Literal["unread", "in use", "held back", "error"]:
    if name in errors:
        return "error"
    if name in held_versions:
        return "held back"
    return "in use" if name in sources else "unread"


def _describe_held(row: HeldRelationRow | None) -> HeldVersion | None:
    return None if row is None else HeldVersion(row.rows, row.held_at, row.accepted)
