"""What a rule reads: streams, derived streams, relations, and streams of recalls and stages. No I/O."""

from moirae.rules.event_names import find_tables_in
from moirae.rules.revision_streams import list_queries
from moirae.rules.rule_set import Rule
from recall.query import find_tables_reached


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
