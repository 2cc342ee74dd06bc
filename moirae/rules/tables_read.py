"""What a rule reads: streams, derived streams, relations, and streams of recalls and stages. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from moirae.rules.event_names import find_tables_in
from moirae.rules.revision_streams import list_queries
from moirae.rules.rule_set import Rule
from recall.query import find_tables_reached

_MAX_QUERIES = 50_000  # whose tables are cached: those of rules that stay are parsed once

_find_tables = lru_cache(_MAX_QUERIES)(find_tables_in)


@dataclass(frozen=True)
class TableReads:
    """The tables in lower case that the queries of a rule name, without those that these read.

    `event`: of the event query, or of what it has in its place. `parts`: of contexts, surroundings,
    recalls and stages, by name; they name each other, too. `derived`: of derived streams that any of
    them reaches, by name in lower case.
    """

    event: frozenset[str]
    parts: Mapping[str, frozenset[str]]
    derived: Mapping[str, frozenset[str]]


def list_table_reads(rule: Rule) -> TableReads:
    """What each query of a rule names."""
    spec = rule.spec
    event = {name.lower() for name in (spec.stream, spec.expected) if name is not None}
    if spec.expr is not None:
        event |= _find_tables(spec.expr)
    parts: dict[str, frozenset[str]] = {}
    for (section, name, *_), sql in list_queries(spec).items():
        part = spec.then[int(name)].stream if section == "then" else str(name)
        parts[part] = _find_tables(sql)
    queries = {query.stream.lower(): query.expr for query in rule.derived}
    reached = find_tables_reached(event.union(*parts.values()), queries) & queries.keys()
    derived = {name: _find_tables(queries[name]) for name in reached}
    return TableReads(frozenset(event), parts, derived)


def find_tables_read(rule: Rule) -> frozenset[str]:
    """The names in lower case of all that the queries of a rule read, through derived streams too.

    Not its own contexts, recalls and stages, which it names as tables.
    """
    spec = rule.spec
    own = {*spec.context, *spec.surroundings, *spec.recall, *(stage.stream for stage in spec.then)}
    tables = {name.lower() for name in (spec.stream, spec.expected) if name is not None}
    for sql in (spec.expr, *list_queries(spec).values()):
        if sql is not None:
            tables |= find_tables_in(sql) - own
    derived = {query.stream.lower(): query.expr for query in rule.derived}
    return find_tables_reached(tables, derived)


def may_read(rule: Rule, name: str) -> bool:
    """Whether a name, in lower case, is in a text of a rule: those without it need not be parsed."""
    spec = rule.spec
    texts = [spec.expr, spec.stream, spec.expected, *list_queries(spec).values()]
    texts += [query.expr for query in rule.derived]
    return any(name in text.lower() for text in texts if text is not None)
