"""Relations: the versions of their rows, and why a relation cannot be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class NewestRelationRow:
    """The newest version of a row. `key`: values of the key columns. `row` None: it was removed."""

    key: list[Any]
    row: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RelationVersionRow:
    """A version of a row, valid in the event time [valid_from, valid_to).

    `row` None: the row was removed. `valid_to` None: it is the newest version.
    """

    row: Mapping[str, Any] | None
    valid_from: datetime
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class RelationErrorRow:
    """Why a relation cannot be read. `at`: since when, wall-clock time."""

    relation: str
    error: str
    at: datetime


class RelationGateway(Gateway):
    queries = "relations"

    def list_newest(self, relation: str) -> list[NewestRelationRow]:
        """The newest version of each row, by key."""
        return self._records(NewestRelationRow, "list_newest", relation=relation)

    def has_versions(self, relation: str) -> bool:
        """Whether any version of a row of the relation is stored."""
        return bool(self._value("has_versions", relation=relation))

    def put_version(
        self,
        relation: str,
        key: Sequence[Any],
        *,
        row: Mapping[str, Any] | None,
        valid_from: datetime,
    ) -> None:
        """Store a version of a row. `row` None: the row was removed.

        `valid_from` is event time. A version of the same time is replaced.
        """
        self._execute(
            "put_version",
            relation=relation,
            key=Jsonb(key),
            valid_from=valid_from,
            row=None if row is None else Jsonb(row),
        )

    def list_versions(self, relation: str) -> list[RelationVersionRow]:
        """All versions of all rows, by key and time."""
        return self._records(RelationVersionRow, "list_versions", relation=relation)

    def put_error(self, relation: str, error: str) -> None:
        """Store why a relation cannot be read. The same error keeps its time."""
        self._execute("put_error", relation=relation, error=replace_nul(error))

    def delete_error(self, relation: str) -> None:
        """Delete the error of a relation."""
        self._execute("delete_error", relation=relation)

    def delete_undeclared_errors(self, declared: Sequence[str]) -> None:
        """Delete the errors of all relations but those declared."""
        self._execute("delete_undeclared_errors", declared=list(declared))

    def list_errors(self) -> list[RelationErrorRow]:
        """All errors, by relation."""
        return self._records(RelationErrorRow, "list_errors")
