"""The columns of streams that are behind the key of a rule. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moirae.errors import Problem
from moirae.rules.definition import Definition
from moirae.rules.revision_streams import find_streams_read
from recall.query import find_plain_columns, reads_one_table


@dataclass(frozen=True)
class KeySource:
    """A stream whose rows tell that data of a key come. `columns`: of the stream, by key column."""

    stream: str
    columns: Mapping[str, str]


def find_key_sources(
    definition: Definition, columns: Mapping[str, Mapping[str, str]]
) -> Sequence[KeySource]:
    """The streams with columns behind the key; none if a key column is no plain column of a stream.

    `columns`: of the declared streams, with their types.
    """
    if definition.reads_revisions:
        return ()
    derived = definition.rule.derived_queries
    sql = _key_query(definition)
    streams = find_streams_read(definition.rule, columns.keys() - derived.keys())
    if not definition.key:
        return [KeySource(stream, {}) for stream in sorted(streams)]
    sources: list[KeySource] = []
    names = {stream: {name.lower(): name for name in columns[stream]} for stream in streams}
    types = {stream: columns[stream] for stream in streams}
    for branch in find_plain_columns(sql, definition.key, types, derived):
        by_stream: dict[str, dict[str, str]] = {}
        for name in definition.key:
            column = branch.get(name.lower())
            if column is None or column[1] not in names.get(column[0], ()):
                return ()
            by_stream.setdefault(column[0], {})[name] = names[column[0]][column[1]]
        for stream, key_columns in by_stream.items():
            source = KeySource(stream, key_columns)
            if source not in sources:
                sources.append(source)
    return sources


def _key_query(definition: Definition) -> str:
    """A query with the key of each event."""
    spec = definition.spec
    if spec.expr is not None:
        return spec.expr
    return f"SELECT {', '.join(f'`{name}`' for name in definition.key)} FROM {spec.stream}"


def find_closing_columns(
    definition: Definition,
    columns: Mapping[str, Mapping[str, str]],
    key: Mapping[str, Sequence[str]],
) -> KeySource | None:
    """The stream whose key columns are behind the key of a rule, by column of the rule.

    Each event then follows from the rows of one key of that stream. None: it does not. `columns`: of
    the declared streams, with their types; `key`: their key columns.
    """
    sources = find_key_sources(definition, columns)
    if len(sources) != 1 or not sources[0].columns:
        return None
    (source,) = sources
    stream_key = key.get(source.stream, ())
    if not stream_key or not set(stream_key) <= set(source.columns.values()):
        return None
    if not reads_one_table(_key_query(definition), definition.rule.derived_queries):
        return None
    by_stream_column = {column: name for name, column in source.columns.items()}
    return KeySource(source.stream, {by_stream_column[name]: name for name in stream_key})


def find_hold_problem(
    definition: Definition, columns: Mapping[str, Mapping[str, str]]
) -> Problem | None:
    """Why the alerts of a rule cannot be held while their data are away."""
    rule = definition.rule
    if rule.spec.on_silence != "hold" or find_key_sources(definition, columns):
        return None
    names = ", ".join(definition.key) or "none"
    message = (
        f"on_silence: hold needs a key of plain columns of streams, and the key ({names}) is not: "
        "select the columns as they are, or use on_silence: resolve"
    )
    return rule.make_problem(message, "on_silence")
