"""Whether the archive can follow the streams as they are declared, before anything starts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from moirae.config import Settings, locate, stream_schema
from moirae.errors import Problem, ProblemsError
from moirae.runtime.storage.archive import open_storage

if TYPE_CHECKING:
    from archiver.delta import TableDeclaration


def check_declarations(settings: Settings) -> None:
    """Raise `ProblemsError` if archived rows cannot be read as declared."""
    problems = find_declaration_problems(settings)
    if problems:
        raise ProblemsError(problems)


def find_declaration_problems(settings: Settings) -> list[Problem]:
    """Changes of columns, `id` or `time` that the archive cannot follow, with their positions.

    Empty if the archive cannot be read: what needs it says so.
    """
    problems: list[Problem] = []
    for stream, declaration in _read_declarations(settings):
        for problem in declaration.problems:
            path = ("streams", stream, *problem.path)
            problems.append(locate(settings, path, problem.message))
    return problems


def find_changed_types(settings: Settings) -> dict[str, dict[str, tuple[str, str]]]:
    """By stream and column, the types before and now of values that get another text now.

    Once the change is made, there are none.
    """
    from archiver.delta import keeps_text

    changed: dict[str, dict[str, tuple[str, str]]] = {}
    for stream, declaration in _read_declarations(settings):
        for column, stored in declaration.changes.rewritten.items():
            type_name = declaration.schema.columns[column]
            if not keeps_text(stored.type, type_name):
                changed.setdefault(stream, {})[column] = (stored.type, type_name)
    return changed


def find_altered_types(settings: Settings) -> dict[str, dict[str, str]]:
    """By stream and column, the present types of columns whose values had another text before."""
    from archiver.delta import find_altered_types

    altered: dict[str, dict[str, str]] = {}
    for stream, declaration in _read_declarations(settings):
        types = find_altered_types(declaration.schema)
        if types:
            altered[stream] = types
    return altered


def _read_declarations(settings: Settings) -> Iterator[tuple[str, "TableDeclaration"]]:
    # Loaded here: the command line reads settings without it.
    from deltalake.exceptions import DeltaError

    from archiver.delta import read_declaration
    from archiver.errors import ArchiverError

    root = open_storage(settings)
    for name, declared in settings.streams.items():
        try:
            schema = stream_schema(name, declared)
            declaration = read_declaration(root, schema)
            if declaration is None and declared.was is not None:  # not renamed yet
                declaration = read_declaration(root, replace(schema, name=declared.was))
        except (ArchiverError, DeltaError, OSError):
            continue
        if declaration is not None:
            yield name, declaration
