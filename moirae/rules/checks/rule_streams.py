"""The streams of recalls and stages that event queries and derived streams of rules read."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from moirae.errors import Problem, has_errors
from moirae.rules.checks.check_session import CheckSession
from moirae.rules.checks.derived_streams import DerivedStreams
from moirae.rules.definition import Definition
from moirae.rules.revision_streams import (
    find_cycles,
    find_derived_readers,
    find_other_readers,
    find_streams_read,
    list_outputs,
    make_streams,
)
from moirae.rules.rule_set import RevisionStream, Rule, RuleSet
from recall.query import find_tables_reached, tables_in


class RuleStreams:
    """Streams of recalls and stages that event queries and derived streams of rules read.

    Their columns are known when the rule that has them is checked, so rules are checked in the
    order of `order_by_reads`, and derived streams over such streams before the first reader.
    """

    def __init__(
        self,
        session: CheckSession,
        rules: RuleSet,
        unchanged: Iterable[Definition],
        derived: DerivedStreams,
    ) -> None:
        self._session = session
        self._rules = rules
        self._derived = derived
        self._definitions = {definition.name: definition for definition in unchanged}
        checked_rules = [definition.rule for definition in self._definitions.values()]
        self._outputs = list_outputs([*checked_rules, *rules.rules])
        # Stored rules bring those that they read with them.
        self._stored = {
            stream.name: stream for rule in rules.rules for stream in rule.revision_streams
        }
        names = self._outputs.keys() | self._stored.keys()
        readers = find_derived_readers(rules.derived, names)
        self.plain_derived = tuple(query for query in rules.derived if query not in readers)
        self._unchecked = {query.stream: query for query in rules.derived if query in readers}
        self._streams: dict[str, RevisionStream] = {}
        self.has_failed = False

    def find_problems(self) -> Iterator[Problem]:
        """Yield cycles, and derived streams that cannot be archived."""
        yield from find_cycles(self._rules.rules)
        for query in self._unchecked.values():
            if query.archive:
                message = "archive: it reads revisions, which are archived with their recalls"
                yield query.make_problem(message, "archive")

    def add(self, definition: Definition) -> None:
        """Note a checked rule, whose streams others may read."""
        self._definitions[definition.name] = definition

    def complete(self, rule: Rule) -> tuple[Rule, list[Problem]]:
        """The rule with the streams that it reads, each of which has a view then."""
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
        streams = []
        for name in names:
            stream = self._find_stream(name)
            if stream is None:
                message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                return rule, [rule.make_problem(message, key)]
            streams.append(stream)
        return replace(rule, revision_streams=tuple(streams)), self._check_derived(rule)

    def check_remaining(self) -> list[Problem]:
        """Check the derived streams that no rule reads."""
        problems: list[Problem] = []
        for query in list(self._unchecked.values()):
            for name in sorted(tables_in(query.expr) & self._outputs.keys()):
                if self._find_stream(name) is None and not self.has_failed:
                    message = f"stream {name}: rule {self._outputs[name].rule} has errors"
                    return [query.make_problem(message, "expr")]
        for group in dict.fromkeys(query.group for query in self._unchecked.values()):
            problems += self._check_derived_of(group, frozenset(self._unchecked))
        return problems

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
        """Check the derived streams through which a rule reads revisions."""
        assert rule.spec.expr is not None
        expressions = {query.stream: query.expr for query in rule.derived}
        reached = find_tables_reached(tables_in(rule.spec.expr), expressions)
        return self._check_derived_of(rule.group, reached.intersection(expressions))

    def _check_derived_of(self, group: str, names: frozenset[str]) -> list[Problem]:
        """Check those derived streams of a group, once each."""
        selected = [
            query
            for query in self._unchecked.values()
            if query.group == group and query.stream in names
        ]
        for query in selected:
            del self._unchecked[query.stream]
        problems = self._derived.check(selected, self._streams)
        self.has_failed = self.has_failed or has_errors(problems)
        return problems
