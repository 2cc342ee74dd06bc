"""Names in rule files: which part of a file a path leads to, and names that are given twice.

Works on what files say, not on models, so that a clash is told even when other things are wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moirae.documents import Document, KeyPath, format_path, format_value
from moirae.errors import Problem


def describe_path(document: Document, path: KeyPath) -> str:
    """A path in a rule file as people say it: `testbed/NodeOverloaded.recall.norm`."""
    if len(path) < 2 or path[0] != "groups":
        return format_path(path)
    group = _name_at(document, (*path[:2], "name")) or format_path(path[:2])
    if len(path) < 4 or path[2] not in ("rules", "derived"):
        return format_path((group, *path[2:]))
    name = _name_at(document, (*path[:4], "alert" if path[2] == "rules" else "stream"))
    return format_path((f"{group}/{name}" if name else format_path((group, *path[2:4])), *path[4:]))


def find_name_clashes(
    documents: Iterable[Document], reserved_names: frozenset[str]
) -> Iterator[Problem]:
    """Groups, alerts and derived streams named twice over all files, and tables of rules that hide others.

    `taken` are the names of streams and relations.
    """
    documents = tuple(documents)
    seen: dict[tuple[str, str], str] = {}
    for document in documents:
        for kind, name, path in _declared_names(document):
            line, column = document.position(path)
            if kind == "derived stream" and name in reserved_names:
                yield Problem(
                    document.file,
                    line,
                    column,
                    f"the name {format_value(name)} of a derived stream is taken",
                )
            elif (kind, name) in seen:
                message = f"duplicate {kind} {format_value(name)}, first at {seen[kind, name]}"
                yield Problem(document.file, line, column, message)
            seen.setdefault((kind, name), f"{document.file}:{line}")
    streams = reserved_names.union(name for kind, name in seen if kind == "derived stream")
    for document in documents:
        for name, path in _table_names(document):
            if name in streams:
                position = (
                    document.key_position(path) if path[-1] == name else document.position(path)
                )
                message = f"the name {format_value(name)} is that of a stream or relation"
                yield document.make_problem(path[:4], position, message, describe_path)


def _declared_names(document: Document) -> Iterator[tuple[str, str, KeyPath]]:
    for path, group in _mappings(document.data, "groups"):
        name = group.get("name")
        if not isinstance(name, str):
            continue
        yield "group", name, (*path, "name")
        for deeper, stream in _mappings(group, "derived"):
            if isinstance(stream.get("stream"), str):
                yield "derived stream", stream["stream"], (*path, *deeper, "stream")
        for deeper, rule in _mappings(group, "rules"):
            if isinstance(rule.get("alert"), str):
                yield "alert", f"{name}/{rule['alert']}", (*path, *deeper, "alert")


def _table_names(document: Document) -> Iterator[tuple[str, KeyPath]]:
    """The names that the queries of a rule may use as tables beside streams and relations."""
    for group_path, group in _mappings(document.data, "groups"):
        for rule_path, rule in _mappings(group, "rules"):
            path = group_path + rule_path
            for kind in ("context", "surroundings", "recall"):
                named = rule.get(kind)
                yield from (
                    (name, (*path, kind, name))
                    for name in (named if isinstance(named, dict) else ())
                )
            for deeper, stage in _mappings(rule, "then"):
                if isinstance(stage.get("stream"), str):
                    yield stage["stream"], (*path, *deeper, "stream")


def _mappings(parent: dict[str, Any], key: str) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """The mappings in the list at a key, each with its path from there."""
    entries = parent.get(key)
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield (key, place), entry


def _name_at(document: Document, path: KeyPath) -> str | None:
    value = document.value(path)
    return value if isinstance(value, str) and value else None
