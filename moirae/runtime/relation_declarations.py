"""Relations whose columns or keys are declared in another way than their rows are stored.

Rows are stored as JSON under the names of the columns. Renamed and widened columns are converted in
one transaction; rows keep their versions.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import sql
from moirae.config import Relation, Settings, locate
from moirae.errors import MoiraeError, Problem, ProblemsError
from sql.archive import RelationDeclarationRow, RelationGateway

if TYPE_CHECKING:
    from archiver.delta import ColumnChanges, ColumnProblem

_EXACT_INTEGERS = 2**53  # double represents all integers up to here


def check_relations(settings: Settings, connection: sql.Connection) -> None:
    """Raise `ProblemsError` if stored rows of relations cannot be read as declared."""
    stored = {row.relation: row for row in RelationGateway(connection).list_declarations()}
    problems: list[Problem] = []
    for name, relation in settings.relations.items():
        if name in stored:
            for problem in _compare(name, relation, stored[name]).problems:
                path = ("relations", name, *problem.path)
                problems.append(locate(settings, path, problem.message))
    if problems:
        raise ProblemsError(problems)


def update_relations(relations: Mapping[str, Relation], connection: sql.Connection) -> None:
    """Convert stored rows to the declared columns. Raises `MoiraeError` if a value would change."""
    gateway = RelationGateway(connection)
    stored = {row.relation: row for row in gateway.list_declarations()}
    for name, relation in relations.items():
        with connection.transaction():
            if name in stored:
                _convert_rows(gateway, name, relation, _compare(name, relation, stored[name]))
            gateway.put_declaration(name, relation.columns, relation.key)


def _convert_rows(
    gateway: RelationGateway, name: str, relation: Relation, changes: "ColumnChanges"
) -> None:
    if not changes.rewritten:
        return
    for stored in gateway.list_stored_rows(name):
        row = dict(stored.row)
        for column, source in changes.rewritten.items():
            value = row.pop(source.name, None)
            try:
                row[column] = convert(value, source.type, relation.columns[column])
            except ValueError as error:
                raise MoiraeError(f"relation {name}: column {column}: {error}") from error
        gateway.replace_row(name, stored, row)


def convert(value: Any, old_type: str, new_type: str) -> Any:
    """A value as JSON in another type. Raises `ValueError` if it would change."""
    if value is None or old_type == new_type:
        return value
    if new_type == "double":
        if isinstance(value, int) and abs(value) > _EXACT_INTEGERS and int(float(value)) != value:
            raise ValueError(
                f"{value} would change in type double: declare {old_type} again, or correct it"
            )
        return float(value)
    if new_type == "timestamp":
        return f"{value}T00:00:00Z"
    return value


def _compare(name: str, relation: Relation, stored: RelationDeclarationRow) -> "ColumnChanges":
    """How the declared columns differ from the stored ones."""
    from dataclasses import replace

    from archiver.delta import StreamSchema, plan_column_changes

    schema = StreamSchema(
        name,
        relation.columns,
        time="",
        id=relation.key,
        key=(),
        lateness=timedelta(0),
        future=timedelta(0),
        was=relation.renamed,
    )
    changes = plan_column_changes(schema, dict(stored.columns))
    problems = [*changes.problems, *_find_key_problems(relation, stored.key)]
    return replace(changes, problems=tuple(problems))


def _find_key_problems(relation: Relation, stored_key: Sequence[str]) -> Iterator["ColumnProblem"]:
    from archiver.delta import ColumnProblem

    names = [relation.renamed.get(column, column) for column in relation.key]
    if list(relation.key) != list(stored_key) and names != list(stored_key):
        listed = ", ".join(stored_key)
        yield ColumnProblem(
            ("key",),
            f"stored rows are identified by {listed}, which cannot change: set `key: [{listed}]`, "
            "or declare a new relation",
        )
