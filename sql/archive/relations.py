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


@dataclass(frozen=True, slots=True)
class RelationSourceRow:
    """The version of a relation that is in use.

    `fingerprint`: identifies it in its source. `read_at`: wall-clock time.
    """

    relation: str
    fingerprint: str
    rows: int
    read_at: datetime


@dataclass(frozen=True, slots=True)
class HeldRelationRow:
    """A version of a relation that is held back, as it has far fewer rows than the one in use.

    `held_at`: since when, wall-clock time. `accepted`: it will be used all the same.
    """

    relation: str
    fingerprint: str
    rows: int
    rows_in_use: int
    held_at: datetime
    accepted: bool


@dataclass(frozen=True, slots=True)
class RelationDeclarationRow:
    """How the rows of a relation are stored. `columns`: pairs of name and type, in order."""

    relation: str
    columns: Sequence[tuple[str, str]]
    key: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredRelationRow:
    """A row version as it is stored."""

    key: list[Any]
    valid_from: datetime
    row: Mapping[str, Any]


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

    def list_sources(self) -> list[RelationSourceRow]:
        """The versions in use, by relation."""
        return self._records(RelationSourceRow, "list_sources")

    def put_source(self, relation: str, *, fingerprint: str, rows: int) -> None:
        """Store which version of a relation is in use."""
        self._execute("put_source", relation=relation, fingerprint=fingerprint, rows=rows)

    def list_held(self) -> list[HeldRelationRow]:
        """The versions that are held back, by relation."""
        return self._records(HeldRelationRow, "list_held")

    def put_held(self, relation: str, *, fingerprint: str, rows: int, rows_in_use: int) -> None:
        """Store that a version is held back. The same one keeps its time and its acceptance."""
        self._execute(
            "put_held",
            relation=relation,
            fingerprint=fingerprint,
            rows=rows,
            rows_in_use=rows_in_use,
        )

    def accept_held(self, relation: str) -> HeldRelationRow | None:
        """Have the version that is held back used; None if there is none."""
        return self._record(HeldRelationRow, "accept_held", relation=relation)

    def delete_held(self, relation: str) -> None:
        """Delete the version of a relation that is held back."""
        self._execute("delete_held", relation=relation)

    def delete_undeclared_held(self, declared: Sequence[str]) -> None:
        """Delete the versions that are held back of all relations but those declared."""
        self._execute("delete_undeclared_held", declared=list(declared))

    def list_declarations(self) -> list[RelationDeclarationRow]:
        """The columns and keys with which the rows of relations are stored."""
        return self._records(RelationDeclarationRow, "list_declarations")

    def put_declaration(
        self, relation: str, columns: Mapping[str, str], key: Sequence[str]
    ) -> None:
        """Store the columns and the key of a relation."""
        self._execute(
            "put_declaration",
            relation=relation,
            columns=Jsonb(list(columns.items())),
            key=list(key),
        )

    def list_stored_rows(self, relation: str) -> list[StoredRelationRow]:
        """All row versions of a relation, without those of removed rows."""
        return self._records(StoredRelationRow, "list_stored_rows", relation=relation)

    def replace_row(self, relation: str, stored: StoredRelationRow, row: Mapping[str, Any]) -> None:
        """Store a row version under changed columns; it is not a new version."""
        self._execute(
            "replace_row",
            relation=relation,
            key=Jsonb(stored.key),
            valid_from=stored.valid_from,
            row=Jsonb(row),
        )
