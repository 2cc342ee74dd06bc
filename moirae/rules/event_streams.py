"""The queries that stand for streams of rules' events. No I/O.

Where a query reads the events of a rule, these are a derived stream: the event query of that rule.
So a rule over events of other rules sees them in the same batch, and its past, back-test and
replicas follow from the rows of declared streams alone.
"""

from collections.abc import Iterable, Mapping, Sequence

from moirae.config import Stream
from moirae.rules.definition import Definition, build_event_tables
from moirae.rules.event_names import EventNames, full_name
from moirae.rules.rule_set import EventStream
from recall.query import find_tables_reached, rename_tables, tables_in, unique_columns

_EVENT = "_event"  # of rows equal in time and identity, the one that is the event


def find_refusal(definition: Definition) -> str | None:
    """Why no query stands for the events of a rule; None: one does."""
    if definition.is_external:
        return "its alerts are posted"
    if definition.is_absence:
        return "it looks for absent rows"
    if definition.reads_revisions:
        return "it reads revisions of a recall"
    return None


def build_event_streams(
    name: str, definition: Definition, streams: Mapping[str, Stream]
) -> list[EventStream]:
    """The event stream of a rule under a name, after those that it reads, under full names.

    `streams`: as declared. The rule must have no refusal, see `find_refusal`.
    """
    rule = definition.rule
    expr = rule.spec.expr
    assert expr is not None
    names = {stream.name: full_name(stream.rule) for stream in rule.event_streams if stream.rule}
    reached = find_tables_reached(tables_in(expr), rule.derived_queries)
    inner: list[EventStream] = []
    for stream in rule.event_streams:
        if stream.name in reached:
            inner_name = names.get(stream.name, stream.name)
            inner.append(
                EventStream(inner_name, stream.rule, stream.expr, stream.columns, stream.is_early)
            )
    own_names = {stream.name for stream in rule.event_streams}
    for query in rule.derived:
        if query.stream in reached and query.stream not in own_names:
            inner.append(EventStream(query.stream, "", rename_tables(query.expr, names)))
    sql = rename_tables(expr, names)
    if not _has_unique_rows(definition, streams):
        sql = _select_first(sql, definition)
    columns = {"ts": "timestamp", **definition.types}
    is_early = definition.spec.early or any(stream.is_early for stream in inner)
    return [*inner, EventStream(name, definition.name, sql, columns, is_early)]


def find_event_streams(
    name: str, definitions: Sequence[Definition], streams: Mapping[str, Stream]
) -> list[EventStream]:
    """As `build_event_streams`, of the rule that a name stands for outside of all groups.

    Raises `LookupError` with the reason.
    """
    by_name = {definition.name: definition for definition in definitions}
    names = EventNames(definition.rule for definition in definitions)
    definition = by_name[names.resolve(name, "")]
    refusal = find_refusal(definition)
    if refusal is not None:
        raise LookupError(f"{name}: no query computes the events of {definition.name}: {refusal}")
    return build_event_streams(name, definition, streams)


def merge_streams(streams: Sequence[EventStream]) -> tuple[EventStream, ...]:
    """Event streams, each name once."""
    return tuple({stream.name: stream for stream in streams}.values())


def _has_unique_rows(definition: Definition, streams: Mapping[str, Stream]) -> bool:
    """Whether no two rows of a rule's event query can have one time and identity."""
    keys: dict[str, frozenset[str]] = {}
    for name, stream in streams.items():
        if stream.id:
            keys[name] = frozenset(column.lower() for column in (*stream.id, stream.time))
    rule = definition.rule
    assert rule.spec.expr is not None
    tables = build_event_tables(rule, {}, frozenset())
    columns = unique_columns(rule.spec.expr, keys, tables.derived)
    identity = {"ts", *(column.lower() for column in definition.id)}
    return columns is not None and columns <= identity


def _select_first(sql: str, definition: Definition) -> str:
    """Of rows equal in time and identity, the smallest in column order, as events are."""
    if not definition.types:
        return f"SELECT ts FROM ({sql}) GROUP BY ts"
    row = f"struct({_quote(definition.types)})"
    # Maps have no order: rows that differ in them alone are told apart by nothing.
    ordered = [name for name, kind in definition.types.items() if "map<" not in kind]
    first = f"min({row})"
    if len(ordered) < len(definition.types):
        first = f"min_by({row}, struct({_quote(ordered)}))" if ordered else f"first({row})"
    identity = [name for name in definition.types if name in definition.id]
    outputs = ["ts"]
    for name in definition.types:
        outputs.append(f"`{name}`" if name in identity else f"{_EVENT}.`{name}` AS `{name}`")
    keys = ", ".join(["ts", *(f"`{name}`" for name in identity)])
    return (
        f"SELECT {', '.join(outputs)} FROM "
        f"(SELECT {keys}, {first} AS {_EVENT} FROM ({sql}) GROUP BY {keys})"
    )


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
