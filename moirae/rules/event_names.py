"""The names of streams of rules' events, and which rules read them. No I/O.

`events.NAME` has the events of the rule NAME of the reader's group, else of the only rule of that
name; events.`GROUP/NAME` those of the rule of that full name.
"""

from collections.abc import Iterable, Iterator

from moirae.rules.rule_set import Rule
from recall.query import EVENTS_PREFIX, Unsupported, find_tables_reached, tables_in

# Most rules read no events: their queries need not be parsed to know that.
_MENTION = EVENTS_PREFIX.removesuffix(".")


class EventNames:
    """The rules that names of event streams stand for."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules_by_name: dict[str, set[str]] = {}
        self.rules: set[str] = set()
        """The full names of all rules."""
        for rule in rules:
            self.rules.add(rule.id)
            for name in (rule.id.lower(), rule.spec.alert.lower()):
                self._rules_by_name.setdefault(name, set()).add(rule.id)

    def resolve(self, table: str, group: str) -> str:
        """The rule of an event stream that a query of a group reads. Raises `LookupError`."""
        name = table.removeprefix(EVENTS_PREFIX)
        own = self._rules_by_name.get(f"{group.lower()}/{name}", set())
        candidates = own or self._rules_by_name.get(name, set())
        if len(candidates) == 1:
            return next(iter(candidates))
        if not candidates:
            raise LookupError(f"{table}: there is no rule of this name")
        names = ", ".join(sorted(candidates))
        raise LookupError(
            f"{table}: several rules have this name ({names}); write events.`GROUP/NAME`"
        )


def list_event_names(tables: Iterable[str]) -> list[str]:
    """Those of some tables that are event streams, sorted."""
    return sorted(name for name in tables if name.startswith(EVENTS_PREFIX))


def find_event_names(rule: Rule, queries: Iterable[str]) -> list[str]:
    """The event streams that queries of a rule read, through its derived streams too, sorted."""
    texts = list(queries)
    derived = {query.stream: query.expr for query in rule.derived}
    if not any(_MENTION in text.lower() for text in (*texts, *derived.values())):
        return []
    tables: set[str] = set()
    for sql in texts:
        tables |= find_tables_in(sql)
    return list_event_names(find_tables_reached(tables, derived))


def find_tables_in(sql: str) -> frozenset[str]:
    """As `tables_in`; none of a query that cannot be parsed, which its check reports."""
    try:
        return tables_in(sql)
    except Unsupported:
        return frozenset()


def list_event_queries(rule: Rule) -> list[str]:
    """The queries that a rule's events follow from."""
    if rule.spec.expr is not None:
        return [rule.spec.expr]
    return [f"SELECT * FROM {rule.spec.stream}"]


def find_producers(
    rule: Rule, names: EventNames, queries: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield the rules whose events queries of a rule read, each with the name of the stream."""
    for table in find_event_names(rule, queries):
        try:
            yield names.resolve(table, rule.group), table
        except LookupError:
            continue  # reported when the query is checked


def full_name(rule: str) -> str:
    """The name of a rule's event stream that stands for no other rule in any group."""
    return EVENTS_PREFIX + rule.lower()
