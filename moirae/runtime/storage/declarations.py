"""Whether the archive can follow the streams as they are declared, before anything starts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from moirae.config import Settings, locate, stream_schema
from moirae.errors import Problem, ProblemsError
from moirae.runtime.storage.archive import open_storage
from moirae.runtime.storage.renames import find_rename_problems

if TYPE_CHECKING:
    from archiver.delta import StreamSchema, TableDeclaration
    from archiver.storage import StorageRoot


def check_declarations(settings: Settings) -> None:
    """Raise `ProblemsError` if archived rows cannot be read as declared."""
    problems = find_declaration_problems(settings)
    if problems:
        raise ProblemsError(problems)


def find_declaration_problems(settings: Settings) -> list[Problem]:
    """Changes of names, columns, `id` or `time` that the archive cannot follow, with positions.

    Empty if the archive cannot be read: what needs it says so.
    """
    problems = find_rename_problems(settings)
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

    from archiver.errors import ArchiverError

    root = open_storage(settings)
    for name, declared in settings.streams.items():
        try:
            declaration = _read_declaration(root, stream_schema(name, declared), declared.was)
        except (ArchiverError, DeltaError, OSError):
            continue
        if declaration is not None:
            yield name, declaration


def _read_declaration(
    root: "StorageRoot", schema: "StreamSchema", was: str | None
) -> "TableDeclaration | None":
    from archiver.delta import read_declaration

    declaration = None
    if was is not None:  # its table is there until it is renamed
        declaration = read_declaration(root, replace(schema, name=was))
    return declaration or read_declaration(root, schema)
