"""Check derived streams, each of which becomes an empty view that queries may read."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from types import MappingProxyType

from moirae.config import Settings
from moirae.errors import Problem
from moirae.rules.checks.check_session import CheckSession
from moirae.rules.checks.event_columns import require_time_column
from moirae.rules.checks.verdict_store import VerdictStore
from moirae.rules.event_names import full_name
from moirae.rules.rule_set import DerivedQuery, EventStream, RevisionStream, RuleSet
from recall.errors import QueryRejected
from recall.query import (
    Tables,
    Unsupported,
    check_table_count,
    infer_shape,
    rename_tables,
    tables_in,
)


class DerivedStreams:
    """Checks derived streams and creates an empty view of each."""

    def __init__(
        self, session: CheckSession, store: VerdictStore, settings: Settings, rules: RuleSet
    ) -> None:
        self._session = session
        self._store = store
        self._rules = rules
        self._time_columns = {name: stream.time for name, stream in settings.streams.items()}
        self._relations = frozenset(settings.relations)

    def check(
        self,
        queries: Sequence[DerivedQuery],
        revision_streams: Mapping[str, RevisionStream] = MappingProxyType({}),
        event_streams: Sequence[EventStream] = (),
    ) -> list[Problem]:
        """The problems of some derived streams.

        `revision_streams`, `event_streams`: that they may read, each of which has a view.
        """
        problems: list[Problem] = []
        for query in queries:
            problems += self._check_shape(query, revision_streams, event_streams)
        if not problems:
            for query in _sort_by_dependency(queries):
                problems += self._check_query(query, revision_streams, event_streams)
        return problems

    def _siblings(self, derived: DerivedQuery) -> dict[str, str]:
        return {
            query.stream: query.expr
            for query in self._rules.derived
            if query.group == derived.group and query.stream != derived.stream
        }

    def _check_shape(
        self,
        derived: DerivedQuery,
        revision_streams: Mapping[str, RevisionStream],
        event_streams: Sequence[EventStream],
    ) -> list[Problem]:
        siblings = self._siblings(derived)
        siblings |= {stream.name: stream.expr for stream in event_streams}
        names = {stream.name: stream.table for stream in revision_streams.values()}
        streams = {**self._time_columns, **dict.fromkeys(names.values(), "ts")}
        try:
            siblings = {name: rename_tables(expr, names) for name, expr in siblings.items()}
            check_table_count(derived.expr, siblings)
            expr = rename_tables(derived.expr, names)
            infer_shape(expr, Tables(streams, self._relations, siblings))
        except Unsupported as error:
            return [derived.make_problem(str(error), "expr", line=error.line, column=error.column)]
        return []

    def _check_query(
        self,
        derived: DerivedQuery,
        revision_streams: Mapping[str, RevisionStream],
        event_streams: Sequence[EventStream],
    ) -> list[Problem]:
        columns_read = [[name, list(s.columns.items())] for name, s in revision_streams.items()]
        columns_read += [[stream.name, list(stream.columns.items())] for stream in event_streams]
        content = ["derived", derived.expr, sorted(self._siblings(derived).items()), columns_read]
        columns = self._store.find(content)
        if columns is None:
            try:
                views = event_views(event_streams)
                views |= {stream.name: stream.table for stream in revision_streams.values()}
                schema = self._session.validate_derived(derived.expr, views)
                require_time_column(schema)
            except QueryRejected as error:
                problem = derived.make_problem(
                    str(error), "expr", line=error.line, column=error.column
                )
                return [problem]
            columns = {field.name: field.dataType.simpleString() for field in schema.fields}
            self._store.put(content, columns)
        self._session.create_view(derived.stream, columns)
        return []


def event_views(streams: Iterable[EventStream]) -> dict[str, str]:
    """The views of the event streams of rules, by the names under which queries read them."""
    return {stream.name: full_name(stream.rule) for stream in streams if stream.rule}


def _sort_by_dependency(derived_streams: Iterable[DerivedQuery]) -> Iterator[DerivedQuery]:
    """Yield each derived stream after those that it reads."""
    by_name = {derived.stream: derived for derived in derived_streams}
    dependencies: dict[str, Collection[str]] = {}
    for name, derived in by_name.items():
        dependencies[name] = tables_in(derived.expr) & by_name.keys() - {name}
    return map(by_name.__getitem__, TopologicalSorter(dependencies).static_order())
