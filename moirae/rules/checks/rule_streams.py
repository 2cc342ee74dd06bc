"""The streams of other rules that queries of rules read: of recalls and stages, and of events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from moirae.config import Settings
from moirae.errors import Problem, has_errors
from moirae.rules.alert_table import ALERTS
from moirae.rules.bound_alerts import find_bound_alerts, find_bound_rules, reads_alerts
from moirae.rules.checks.check_session import CheckSession
from moirae.rules.checks.derived_streams import DerivedStreams
from moirae.rules.checks.rule_tables import FindDefinition, RuleTables
from moirae.rules.definition import Definition
from moirae.rules.event_names import (
    EventNames,
    find_event_names,
    find_tables_in,
    list_event_names,
    list_event_queries,
)
from moirae.rules.event_streams import merge_streams
from moirae.rules.revision_streams import (
    find_cycles,
    find_derived_readers,
    find_other_readers,
    find_streams_read,
    list_outputs,
    list_queries,
    make_streams,
)
from moirae.rules.rule_set import DerivedQuery, EventStream, RevisionStream, Rule, RuleSet
from recall.query import Unsupported, find_table, find_tables_reached


class RuleStreams:
    """Streams of recalls and stages that event queries and derived streams of rules read, and of
    events, which all queries read.

    Their columns are known when the rule that has them is checked, so rules are checked in the
    order of `order_by_reads`, and derived streams over such streams before the first reader.
    """

    def __init__(
        self,
        session: CheckSession,
        rules: RuleSet,
        unchanged: Iterable[Definition],
        derived: DerivedStreams,
        settings: Settings,
        find_definition: FindDefinition,
    ) -> None:
        self._session = session
        self._rules = rules
        self._derived = derived
        self._definitions = {definition.name: definition for definition in unchanged}
        checked_rules = [definition.rule for definition in self._definitions.values()]
        self._outputs = list_outputs([*checked_rules, *rules.rules])
        # Stored rules bring those that they read with them.
        self._stored = {
            stream.name: stream
            for rule in rules.rules
            for stream in rule.revision_streams
            if stream.is_of_recall
        }
        names = self._outputs.keys() | self._stored.keys()
        names_of_rules = EventNames([*checked_rules, *rules.rules])
        self._events = RuleTables(session, settings, names_of_rules, find_definition)
        read_events = frozenset(
            chain.from_iterable(
                list_event_names(find_tables_in(query.expr)) for query in rules.derived
            )
        )
        self._has_alerts = ALERTS not in settings.table_names
        read_alerts = frozenset({ALERTS}) if self._has_alerts else frozenset()
        readers = find_derived_readers(rules.derived, names | read_alerts | read_events)
        self.plain_derived = tuple(query for query in rules.derived if query not in readers)
        self._unchecked = {query.stream: query for query in rules.derived if query in readers}
        self._streams: dict[str, RevisionStream] = {}
        self.has_failed = False

    def find_problems(self) -> Iterator[Problem]:
        """Yield cycles, and derived streams that cannot be archived."""
        yield from find_cycles(self._rules.rules, has_alerts=self._has_alerts)
        for query in self._unchecked.values():
            if query.archive and self._outputs.keys() & find_tables_in(query.expr):
                message = "archive: it reads revisions, which are archived with their recalls"
                yield query.make_problem(message, "archive")
            elif query.archive:
                message = "archive: it reads streams of rules, which are not archived by themselves"
                yield query.make_problem(message, "archive")

    def add(self, definition: Definition) -> None:
        """Note a checked rule, whose streams others may read."""
        self._definitions[definition.name] = definition

    def complete(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the streams that it reads, each of which has a view then."""
        if rule.revision_streams or rule.event_streams:
            return self._complete_stored(rule)
        queries = {**list_queries(rule.spec), **_list_own_queries(rule)}
        rule, problems = self._complete_events(rule, queries)
        if not problems:
            rule, problems = self._complete_alerts(rule)
        if not problems:
            rule, problems = self._complete_revisions(rule)
        if problems:
            return rule, problems
        return rule, self._check_derived(rule)

    def complete_events_of_expr(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the event streams that its events follow from."""
        return self._complete_events(rule, _list_own_queries(rule))

    def _complete_stored(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """A rule that brings the streams that it reads, with those that were checked since."""
        for event_stream in rule.event_streams:
            if event_stream.rule:
                self._events.create_event_view(event_stream)
        streams: list[RevisionStream] = []
        for stream in rule.revision_streams:
            current_stream: RevisionStream | None = stream
            if stream.is_of_recall:
                current_stream = self._find_stream(stream.name)
            else:
                self._events.create_revision_view(stream)
            if current_stream is None:
                message = f"stream {stream.name}: rule {stream.rule} has errors"
                return rule, [rule.make_problem(message, "expr")]
            streams.append(current_stream)
        rule = replace(rule, revision_streams=tuple(streams))
        return rule, self._check_derived(rule)

    def _complete_events(
        self, rule: Rule, queries: Mapping[tuple[str | int, ...], str]
    ) -> tuple[Rule, list[Problem]]:
        streams: list[EventStream] = []
        stored_events: dict[str, RevisionStream] = {}
        for path, sql in queries.items():
            for name in find_event_names(rule, [sql]):
                try:
                    stream = self._events.find_stored_events(name, rule.group)
                    if stream is None:
                        streams += self._events.find_events(name, rule.group)
                        self._events.create_event_view(streams[-1])
                    elif path == ("expr",):
                        stored_events[name] = stream
                    else:
                        message = f"{name}: only event queries and derived streams read the events"
                        raise LookupError(f"{message} of {stream.rule}, which no query computes")
                except LookupError as error:
                    line, column = find_table(sql, name)
                    return rule, [
                        rule.make_problem(str(error.args[0]), *path, line=line, column=column)
                    ]
        if not streams and not stored_events:
            return rule, []
        completed = replace(
            rule,
            event_streams=merge_streams(streams),
            revision_streams=tuple(stored_events.values()),
        )
        return completed, []

    def _complete_alerts(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the alerts that its event query reads."""
        if not self._has_alerts:
            return rule, []
        for path, sql in list_queries(rule.spec).items():
            if path[0] != "then" or ALERTS not in sql.lower():
                continue
            if ALERTS in find_tables_in(sql):
                line, column = find_table(sql, ALERTS)
                message = "alerts: name a context or surrounding that reads them"
                return rule, [rule.make_problem(message, *path, line=line, column=column)]
        if not reads_alerts(rule):
            return rule, []
        if rule.spec.expr is None:
            message = "absence is of rows of declared streams; this reads alerts"
            return rule, [rule.make_problem(message, "stream")]
        try:
            bound = find_bound_alerts(rule)
        except Unsupported as error:
            return rule, [
                rule.make_problem(str(error), "expr", line=error.line, column=error.column)
            ]
        try:
            stream = self._events.make_alerts(bound)
        except LookupError as error:
            return rule, [rule.make_problem(str(error.args[0]), "expr")]
        return replace(rule, revision_streams=(*rule.revision_streams, stream)), []

    def _complete_revisions(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the streams of recalls and stages that its event query reads."""
        all_names = self._outputs.keys() | self._stored.keys()
        if not all_names:
            return rule, []
        problems = list(find_other_readers(rule, all_names))
        names = sorted(find_streams_read(rule, all_names))
        if problems or not names:
            return rule, problems
        key = "expr" if rule.spec.expr is not None else "stream"
        if rule.spec.expr is None:
            message = "absence is of rows of declared streams; this reads revisions of a recall"
            return rule, [rule.make_problem(message, key)]
        streams = list(rule.revision_streams)
        for name in names:
            stream = self._find_stream(name)
            if stream is None:
                message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                return rule, [rule.make_problem(message, key)]
            streams.append(stream)
        return replace(rule, revision_streams=tuple(streams)), []

    def check_remaining(self) -> list[Problem]:
        """Check the derived streams that no rule reads."""
        problems: list[Problem] = []
        for query in list(self._unchecked.values()):
            for name in sorted(find_tables_in(query.expr) & self._outputs.keys()):
                if self._find_stream(name) is None and not self.has_failed:
                    message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                    return [query.make_problem(message, "expr")]
        for group in dict.fromkeys(query.group for query in self._unchecked.values()):
            event_streams: list[EventStream] = []
            revision_streams: list[RevisionStream] = []
            for query in list(self._unchecked.values()):
                if query.group != group:
                    continue
                if query.origin is None:  # of stored rules, which do not read it
                    del self._unchecked[query.stream]
                    continue
                try:
                    self._find_streams_of_derived(query, event_streams, revision_streams)
                except (LookupError, Unsupported) as error:
                    problems.append(query.make_problem(str(error.args[0]), "expr"))
                    del self._unchecked[query.stream]
            problems += self._check_derived_of(
                group, frozenset(self._unchecked), merge_streams(event_streams), revision_streams
            )
        self.has_failed = self.has_failed or has_errors(problems)
        return problems

    def _find_streams_of_derived(
        self,
        query: DerivedQuery,
        event_streams: list[EventStream],
        revision_streams: list[RevisionStream],
    ) -> None:
        """Add the events and alerts that a derived stream reads that no rule reads.

        Raises `LookupError` and `Unsupported`.
        """
        tables = find_tables_in(query.expr)
        for name in list_event_names(tables):
            stream = self._events.find_stored_events(name, query.group)
            if stream is None:
                event_streams += self._events.find_events(name, query.group)
                self._events.create_event_view(event_streams[-1])
            else:
                revision_streams.append(stream)
        if self._has_alerts and ALERTS in tables:
            revision_streams.append(self._events.make_alerts(find_bound_rules(query.expr)))

    def _find_stream(self, name: str) -> RevisionStream | None:
        """A stream, for which a view is created; None: its rule has errors."""
        if name in self._streams:
            return self._streams[name]
        output = self._outputs.get(name)
        if output is None:
            stream = self._stored[name]
        elif output.rule not in self._definitions:
            return None
        else:
            columns = self._definitions[output.rule].output_columns(output.name)
            (stream,) = make_streams([name], output, columns)
        self._session.create_view(name, stream.columns)
        self._streams[name] = stream
        return stream

    def _check_derived(self, rule: Rule) -> list[Problem]:
        """Check the derived streams through which a rule reads streams of other rules."""
        if not self._unchecked:
            return []
        queries = [*list_queries(rule.spec).values(), *list_event_queries(rule)]
        expressions = {query.stream: query.expr for query in rule.derived}
        tables = frozenset().union(*map(find_tables_in, queries))
        reached = find_tables_reached(tables, expressions)
        names = reached.intersection(expressions)
        return self._check_derived_of(rule.group, names, rule.event_streams, rule.revision_streams)

    def _check_derived_of(
        self,
        group: str,
        names: frozenset[str],
        event_streams: Sequence[EventStream],
        revision_streams: Sequence[RevisionStream],
    ) -> list[Problem]:
        """Check those derived streams of a group, once each."""
        selected = [
            query
            for query in self._unchecked.values()
            if query.group == group and query.stream in names
        ]
        for query in selected:
            del self._unchecked[query.stream]
        streams = {**self._streams, **{stream.name: stream for stream in revision_streams}}
        problems = self._derived.check(selected, streams, event_streams)
        self.has_failed = self.has_failed or has_errors(problems)
        return problems


def _list_own_queries(rule: Rule) -> dict[tuple[str | int, ...], str]:
    """The query that the events of a rule follow from, by its key."""
    (query,) = list_event_queries(rule)
    return {("stream" if rule.spec.expr is None else "expr",): query}
