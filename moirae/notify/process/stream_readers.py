"""Which streams rules read: alerts that fired long ago wait until those are read."""

import json
from collections.abc import Collection, Iterable

from moirae.config import Settings
from moirae.rules import Definition, build_event_tables, infer_event_shape
from sql.rules import RuleGateway


class StreamReaders:
    """The applied rules whose event queries read streams, directly or by derived ones."""

    def __init__(self, rules: RuleGateway, settings: Settings) -> None:
        self._rules = rules
        self._times = {name: stream.time for name, stream in settings.streams.items()}
        self._relations = frozenset(settings.relations)
        self._found: dict[str, frozenset[str] | None] = {}
        """None: not known."""
        self._revision: int | None = None

    def find_readers(self, rules: Iterable[str], streams: Collection[str]) -> set[str]:
        """Of some rules, those that read some streams, or of which it is not known.

        As of a rule that is applied no longer, or reads answers of recalls.
        """
        revision = self._rules.revision()
        if revision != self._revision:
            self._found, self._revision = {}, revision
        readers: set[str] = set()
        for rule in set(rules):
            if rule not in self._found:
                self._found[rule] = self._read(rule)
            read = self._found[rule]
            if read is None or not read.isdisjoint(streams):
                readers.add(rule)
        return readers

    def _read(self, rule: str) -> frozenset[str] | None:
        rows = self._rules.list_all([rule])
        if not rows:
            return None
        try:
            definition = Definition.from_json(json.loads(rows[0].definition))
            if definition.reads_revisions:
                return None
            tables = build_event_tables(definition.rule, self._times, self._relations)
            return frozenset(infer_event_shape(definition.rule, tables).streams)
        except Exception:  # a rule that an earlier version has stored, for example
            return None
