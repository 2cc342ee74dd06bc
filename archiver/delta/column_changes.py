"""How a table's columns differ from the declared ones, and what that takes. No I/O.

Readers of Delta tables agree on two changes only: a new column, which is null in older files, and
files that are replaced together with the schema. So renamed and widened columns are rewritten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from archiver.delta.schema import ADDED_COLUMNS, StreamSchema

# By type, the types whose values it can take over: each value stays equal.
_WIDENED_FROM: Mapping[str, frozenset[str]] = {
    "bigint": frozenset({"int"}),
    "double": frozenset({"int", "bigint", "float"}),
    "timestamp": frozenset({"date"}),
}
# Of these, those that leave the text of each value as it was.
_SAME_TEXT = frozenset({("int", "bigint")})


class StoredColumn(NamedTuple):
    """A column of a table: its name and type."""

    name: str
    type: str


class ColumnProblem(NamedTuple):
    """Why a declaration cannot take over a table. `path`: keys below the stream."""

    path: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class ColumnChanges:
    """What makes a table's columns the declared ones.

    `rewritten`: the columns that files store under another name or type, and as what. `added`:
    columns that the table lacks. With `problems`, nothing can be done.
    """

    rewritten: Mapping[str, StoredColumn]
    added: tuple[str, ...]
    problems: tuple[ColumnProblem, ...] = ()

    @property
    def renamed(self) -> dict[str, str]:
        """Names in files by declared name."""
        names = {column: stored.name for column, stored in self.rewritten.items()}
        return {column: name for column, name in names.items() if column != name}


NO_CHANGES = ColumnChanges({}, ())


def plan_column_changes(schema: StreamSchema, stored: Mapping[str, str]) -> ColumnChanges:
    """Compare the declared columns with a table's. `stored`: type names by column."""
    rewritten: dict[str, StoredColumn] = {}
    added: list[str] = []
    problems: list[ColumnProblem] = []
    for name, type_name in schema.columns.items():
        source = _find_source(schema, stored, name)
        problem = _find_problem(schema, stored, name, source)
        if problem is not None:
            problems.append(problem)
        elif source is None:
            added.append(name)
        elif source != (name, type_name):
            rewritten[name] = source
    return ColumnChanges(rewritten, tuple(added), tuple(problems))


def is_widening(old_type: str, new_type: str) -> bool:
    """Whether a type takes over all values of another one."""
    return old_type in _WIDENED_FROM.get(new_type, frozenset())


def keeps_text(old_type: str, new_type: str) -> bool:
    """Whether values of a type have the same text in another one."""
    return old_type == new_type or (old_type, new_type) in _SAME_TEXT


def find_altered_types(schema: StreamSchema) -> dict[str, str]:
    """The types of columns whose values had another text under an earlier declaration."""
    types: dict[str, str] = {}
    for column, type_name in schema.columns.items():
        for declaration in schema.earlier:
            columns = declaration.schema.columns
            name = column if column in columns else schema.was.get(column, column)
            old_type = columns.get(name, type_name)
            if is_widening(old_type, type_name) and not keeps_text(old_type, type_name):
                types[column] = type_name
    return types


def _find_source(schema: StreamSchema, stored: Mapping[str, str], name: str) -> StoredColumn | None:
    """The column that a declared one continues; None: it is new."""
    for candidate in (name, schema.was.get(name)):
        if candidate is not None and candidate in stored:
            return StoredColumn(candidate, stored[candidate])
    return None


def _find_problem(
    schema: StreamSchema, stored: Mapping[str, str], name: str, source: StoredColumn | None
) -> ColumnProblem | None:
    path = ("columns", name)
    old_name = schema.was.get(name)
    if source is None:
        return _find_name_problem(schema, stored, name)
    if source.name == name and old_name in stored:
        return ColumnProblem(
            path,
            f"column {name} cannot continue {old_name}: the archive has a column {name} already; "
            "choose another name, or remove `was`",
        )
    if source.name != name and name == schema.time:
        return ColumnProblem(
            path,
            f"the event time cannot be renamed from {old_name}: name it {old_name} again; "
            f"`from: {name}` reads it from the field {name}",
        )
    if source.name != name and (problem := _find_name_problem(schema, stored, name)):
        return problem
    type_name = schema.columns[name]
    if source.type == type_name:
        return None
    if not is_widening(source.type, type_name):
        return ColumnProblem(
            path,
            f"column {name} was archived as {source.type} and cannot become {type_name}: declare "
            f"{source.type} again, or a new column, such as {name}_{type_name}: "
            f"{{type: {type_name}, from: {schema.fields_of(name)[0]}}}",
        )
    if name in (schema.id or ()) and not keeps_text(source.type, type_name):
        return ColumnProblem(
            path,
            f"column {name} identifies rows (`id`) and cannot become {type_name}: the text of its "
            f"values would change; declare {source.type} again",
        )
    return None


def _find_name_problem(
    schema: StreamSchema, stored: Mapping[str, str], name: str
) -> ColumnProblem | None:
    """SQL does not distinguish names that differ in case only."""
    removed = set(stored) - set(schema.was.values()) - ADDED_COLUMNS.keys()
    for stored_name in sorted(removed):
        if stored_name.lower() == name.lower():
            return ColumnProblem(
                ("columns", name),
                f"column {name} differs from the archived column {stored_name} only in case: "
                f"name it {stored_name}, or add `was: {stored_name}`",
            )
    return None


def find_identity_problems(schema: StreamSchema, recorded: StreamSchema) -> list[ColumnProblem]:
    """Why a row that comes again would have another identity or time; empty if it has not.

    `recorded`: the declaration that the table records.
    """
    problems: list[ColumnProblem] = []
    fields = recorded.fields_of(recorded.time)
    if schema.time != recorded.time:
        problems.append(
            ColumnProblem(
                ("time",),
                f"the event time of archived rows is {recorded.time} and cannot become "
                f"{schema.time}: set `time: {recorded.time}`, or declare a new stream",
            )
        )
    elif schema.fields_of(schema.time) != fields:
        problems.append(
            ColumnProblem(
                ("columns", schema.time),
                f"the event time of archived rows was read from {fields[0]}, which cannot change: "
                f"set `from: {fields[0]}`, or declare a new stream",
            )
        )
    if _id_before(schema, recorded) != _names(recorded.id):
        identity, remedy = "the whole row", "remove `id`"
        if recorded.id is not None:
            identity = ", ".join(recorded.id)
            remedy = f"set `id: [{identity}]`"
        problems.append(
            ColumnProblem(
                ("id",),
                f"archived rows are identified by {identity}, which cannot change: {remedy}, or "
                "declare a new stream",
            )
        )
    return problems


def _id_before(schema: StreamSchema, recorded: StreamSchema) -> frozenset[str] | None:
    """The columns of `id` under their recorded names; None: rows are identified as a whole."""
    if schema.id is None:
        return None
    names: list[str] = []
    for name in schema.id:
        is_recorded = name in recorded.columns
        names.append(name if is_recorded else schema.was.get(name, name))
    return frozenset(names)


def _names(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
