"""Streams of recalls and stages as tables of other rules: who reads which, and cycles. No I/O.

A recall with `stream`, and each stage, has two tables: the rows after the last revision, and all
revisions. The event queries of rules and derived streams read them; so a rule may read what follows
from its own events only by a cycle, which is refused.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from archiver.delta import ARROW_TYPES
from moirae.errors import Problem
from moirae.rules.alert_table import ALERTS
from moirae.rules.bound_alerts import find_bound_alerts, reads_alerts
from moirae.rules.event_names import (
    EventNames,
    find_producers,
    find_tables_in,
    list_event_queries,
)
from moirae.rules.model import AlertSpec
from moirae.rules.questions import HistoryRecall, NormalRecall, SimilarRecall
from moirae.rules.rule_set import DerivedQuery, RevisionStream, Rule, revisions_table
from recall.query import Unsupported, find_tables_reached

# Columns of all revisions before those of the row.
_REVISION_COLUMNS = {"seq": "bigint", "op": "string", "row_key": "string"}
_EVENT_COLUMNS = {"eid": "string", "ts": "timestamp"}


class Output(NamedTuple):
    """A recall or stage of a rule whose stream has a name."""

    rule: str
    name: str
    is_similar: bool


def list_outputs(rules: Iterable[Rule]) -> dict[str, Output]:
    """The recalls and stages by the tables of their streams, in lower case."""
    outputs: dict[str, Output] = {}
    for rule in rules:
        named = {}
        for recall_name, recall in rule.spec.recall.items():
            if recall.stream is not None:
                is_similar = isinstance(recall, SimilarRecall)
                named[recall.stream] = Output(rule.id, recall_name, is_similar)
        for stage in rule.spec.then:
            named[stage.stream] = Output(rule.id, stage.stream, False)
        for stream, output in named.items():
            outputs[stream.lower()] = output
            outputs[revisions_table(stream.lower())] = output
    return outputs


def make_streams(
    names: Iterable[str], output: Output, row_columns: Mapping[str, str]
) -> list[RevisionStream]:
    """The tables `names` of a recall or stage; `row_columns`: of its rows.

    Columns of other types than those of declared streams are left out.
    """
    columns = {name: kind for name, kind in row_columns.items() if kind in ARROW_TYPES}
    streams = []
    for name in names:
        stream = RevisionStream(name, output.rule, output.name, {}, output.is_similar)
        added = dict(_EVENT_COLUMNS)
        if stream.has_all_revisions:
            added |= _REVISION_COLUMNS
        # The event and its time take precedence.
        all_columns = {**added, **{n: k for n, k in columns.items() if n.lower() not in added}}
        streams.append(
            RevisionStream(name, output.rule, output.name, all_columns, output.is_similar)
        )
    return streams


def find_streams_read(rule: Rule, names: Collection[str]) -> frozenset[str]:
    """Those of the tables `names` that the event query of a rule reads, through derived streams."""
    if not names:
        return frozenset()
    if rule.spec.expr is None:
        tables = frozenset({(rule.spec.stream or "").lower()})
    else:
        tables = find_tables_in(rule.spec.expr)
    return find_tables_reached(tables, rule.derived_queries).intersection(names)


def find_other_readers(rule: Rule, names: Collection[str]) -> Iterator[Problem]:
    """Yield the queries about events of a rule that read one of the tables `names`.

    A rule has its own recalls and stages under their names.
    """
    spec = rule.spec
    own = {*spec.context, *spec.surroundings, *spec.recall, *(stage.stream for stage in spec.then)}
    queries = list_queries(spec)
    derived = rule.derived_queries
    for path, sql in queries.items():
        read = find_tables_reached(find_tables_in(sql) - own, derived).intersection(names)
        if read:
            yield rule.make_problem(
                f"it reads the stream {min(read)} of a recall or stage; only event queries and "
                "derived streams read these",
                *path,
            )


def list_queries(spec: AlertSpec) -> dict[tuple[str | int, ...], str]:
    """The queries about events of a rule, by their place in it."""
    queries: dict[tuple[str | int, ...], str] = {}
    for section, entries in (("context", spec.context), ("surroundings", spec.surroundings)):
        queries |= {(section, name, "sql"): query.sql for name, query in entries.items()}
    for name, recall in spec.recall.items():
        if isinstance(recall, HistoryRecall):
            key = "normal" if isinstance(recall, NormalRecall) else "sql"
            queries["recall", name, key] = recall.sql
    for index, stage in enumerate(spec.then):
        queries["then", index, "sql"] = stage.sql
    return queries


def find_derived_readers(
    derived: Sequence[DerivedQuery], names: Collection[str]
) -> frozenset[DerivedQuery]:
    """The derived streams that read some of the tables `names`, through others too."""
    expressions = {query.stream.lower(): query.expr for query in derived}
    readers = set()
    for query in derived:
        if names and not find_tables_reached(find_tables_in(query.expr), expressions).isdisjoint(
            names
        ):
            readers.add(query)
    return frozenset(readers)


def derived_without(derived: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The derived streams that read none of the tables `names`, through others neither."""
    expressions = {name.lower(): expr for name, expr in derived.items()}
    independent = {}
    for name, expr in derived.items():
        if find_tables_reached(find_tables_in(expr), expressions).isdisjoint(names):
            independent[name] = expr
    return independent


def find_cycles(rules: Sequence[Rule], *, has_alerts: bool = True) -> Iterator[Problem]:
    """Yield the rules whose event query reads, directly or not, what follows from their events.

    `has_alerts`: whether `alerts` has the alerts of rules; the workspace may have such a stream.
    """
    outputs = list_outputs(rules)
    rule_names = EventNames(rules)
    read_by_rule: dict[str, dict[str, str]] = {}  # by rule: the stream read of each other rule
    for rule in rules:
        read = sorted(find_streams_read(rule, outputs.keys()))
        producers = {outputs[name].rule: name for name in reversed(read)}
        producers |= dict(find_producers(rule, rule_names, list_event_queries(rule)))
        if has_alerts and reads_alerts(rule):
            with suppress(Unsupported):  # reported when the rule is checked
                producers |= dict.fromkeys(find_bound_alerts(rule), ALERTS)
        read_by_rule[rule.id] = producers
    for rule in rules:
        path = _find_path(rule.id, read_by_rule)
        if path is not None:
            key = "expr" if rule.spec.expr is not None else "stream"
            names = " → ".join(path)
            yield rule.make_problem(
                f"cycle: {names}; a rule must not read what follows from its own events", key
            )


def order_by_reads(rules: Sequence[Rule]) -> list[Rule]:
    """Rules without cycles, each after those whose streams it reads, else as given.

    Contexts and recalls of two rules may read each other's events: then one comes first.
    """
    outputs = list_outputs(rules)
    rule_names = EventNames(rules)
    by_id = {rule.id: rule for rule in rules}
    ordered: dict[str, Rule] = {}
    visited: set[str] = set()

    def list_producers(rule: Rule) -> Iterator[Rule]:
        for name in sorted(find_streams_read(rule, outputs.keys())):
            yield by_id[outputs[name].rule]
        queries = [*list_event_queries(rule), *list_queries(rule.spec).values()]
        for producer, _ in find_producers(rule, rule_names, queries):
            yield by_id[producer]

    for first in rules:
        pending = [first]
        while pending:
            rule = pending[-1]
            if rule.id in visited:  # what it reads is ordered, or reads it
                ordered.setdefault(rule.id, rule)
                pending.pop()
                continue
            visited.add(rule.id)
            producers = [item for item in list_producers(rule) if item.id not in visited]
            pending += reversed(producers)
    return list(ordered.values())


def _find_path(start: str, read_by_rule: Mapping[str, Mapping[str, str]]) -> list[str] | None:
    """A way from a rule through what it reads back to it: rules and streams by turns."""
    visited: set[str] = set()
    pending = [(start, [start])]
    while pending:
        rule, path = pending.pop(0)
        for producer, stream in read_by_rule.get(rule, {}).items():
            further = [*path, stream, producer]
            if producer == start:
                return further
            if producer not in visited:
                visited.add(producer)
                pending.append((producer, further))
    return None
