"""Names in rule files: readable paths, and names that are defined twice.

Works on the YAML data, not on models, so that name clashes are reported together with other errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moirae.documents import Document, KeyPath, format_path, format_value
from moirae.errors import Problem
from moirae.rules.external import EXTERNAL_GROUP
from moirae.rules.rule_set import revisions_table


def describe_path(document: Document, path: KeyPath) -> str:
    """Format a path in a rule file by names, such as `testbed/NodeOverloaded.recall.norm`."""
    if len(path) < 2 or path[0] != "groups":
        return format_path(path)
    group = _name_at(document, (*path[:2], "name")) or format_path(path[:2])
    if len(path) < 4 or path[2] not in ("rules", "derived"):
        return format_path((group, *path[2:]))
    name_key = "alert" if path[2] == "rules" else "stream"
    name = _name_at(document, (*path[:4], name_key))
    entry = f"{group}/{name}" if name else format_path((group, *path[2:4]))
    return format_path((entry, *path[4:]))


def find_name_clashes(
    documents: Iterable[Document], reserved_names: frozenset[str]
) -> Iterator[Problem]:
    """Yield groups, alerts and streams that are defined twice over all files, and tables of rules
    that hide streams or relations.

    `reserved_names` are the names of declared streams and relations.
    """
    documents = tuple(documents)
    positions: dict[tuple[str, str], str] = {}  # by kind and name: file:line
    for document in documents:
        for kind, name, path in _definitions(document):
            line, column = document.position(path)
            if kind == "derived stream" and name in reserved_names:
                message = f"the name {format_value(name)} is already used by a stream or relation"
                yield Problem(document.file, line, column, message)
            elif (kind, name) in positions:
                first = positions[kind, name]
                message = f"duplicate {kind} {format_value(name)}, first defined at {first}"
                yield Problem(document.file, line, column, message)
            positions.setdefault((kind, name), f"{document.file}:{line}")
    derived_names = {name for kind, name in positions if kind == "derived stream"}
    yield from _find_hidden_streams(documents, reserved_names | derived_names)


def _find_hidden_streams(
    documents: Iterable[Document], stream_names: frozenset[str]
) -> Iterator[Problem]:
    for document in documents:
        for name, path in _event_table_names(document):
            if name not in stream_names:
                continue
            # Streams have their name as a value, everything else as a mapping key.
            is_key = path[-1] == name
            position = document.key_position(path) if is_key else document.position(path)
            message = f"the name {format_value(name)} is already used by a stream or relation"
            yield document.make_problem(path[:4], position, message, describe_path)


def _definitions(document: Document) -> Iterator[tuple[str, str, KeyPath]]:
    """Yield kind, name and path of each group, alert and stream of a rule file."""
    for group_path, group in _mappings(document.data, "groups"):
        group_name = group.get("name")
        if not isinstance(group_name, str):
            continue
        yield "group", group_name, (*group_path, "name")
        for path, derived in _mappings(group, "derived"):
            if isinstance(derived.get("stream"), str):
                yield "derived stream", derived["stream"], (*group_path, *path, "stream")
        for path, rule in _mappings(group, "rules"):
            if isinstance(rule.get("alert"), str):
                group_of_rule = EXTERNAL_GROUP if rule.get("external") is True else group_name
                alert = f"{group_of_rule}/{rule['alert']}"
                yield "alert", alert, (*group_path, *path, "alert")
            for name, stream_path in _revision_streams(rule):
                yield "stage or recall stream", name, (*group_path, *path, *stream_path)


def _revision_streams(rule: dict[str, Any]) -> Iterator[tuple[str, KeyPath]]:
    """Yield the names of the streams of the recalls and stages of a rule, with their paths."""
    recalls = rule.get("recall")
    if isinstance(recalls, dict):
        for recall, entry in recalls.items():
            if isinstance(entry, dict) and isinstance(entry.get("stream"), str):
                yield entry["stream"], ("recall", recall, "stream")
    for stage_path, stage in _mappings(rule, "then"):
        if isinstance(stage.get("stream"), str):
            yield stage["stream"], (*stage_path, "stream")


def _event_table_names(document: Document) -> Iterator[tuple[str, KeyPath]]:
    """Yield the names that a rule adds to the tables of its queries, with their paths."""
    for group_path, group in _mappings(document.data, "groups"):
        for rule_path, rule in _mappings(group, "rules"):
            path = group_path + rule_path
            for section in ("context", "surroundings", "recall"):
                entries = rule.get(section)
                if isinstance(entries, dict):
                    for name in entries:
                        yield name, (*path, section, name)
            for name, stream_path in _revision_streams(rule):
                yield name, (*path, *stream_path)
                yield revisions_table(name), (*path, *stream_path)


def _mappings(parent: dict[str, Any], key: str) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield the mappings in the list `parent[key]` with their paths relative to `parent`."""
    entries = parent.get(key)
    if not isinstance(entries, list):
        return
    for index, entry in enumerate(entries):
        if isinstance(entry, dict):
            yield (key, index), entry


def _name_at(document: Document, path: KeyPath) -> str | None:
    value = document.value(path)
    if isinstance(value, str) and value:
        return value
    return None
