"""The rules whose alerts an event query reads. No I/O.

An event query over `alerts` names the rules, so that it is known which alerts its own follow from:
a circle is refused, and the query is settled when these rules are.
"""

from collections.abc import Iterator

from sqlglot import exp

from moirae.rules.alert_table import ALERTS
from moirae.rules.event_names import find_tables_in, list_event_queries
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.query import Unsupported, find_tables_reached, joins_of, read_query, sources_of

_RULE = "rule"


def find_alert_readers(spec: AlertSpec) -> frozenset[str]:
    """The contexts and surroundings of a rule that name a table `alerts`."""
    queries = {**spec.context, **spec.surroundings}
    return frozenset(name for name, query in queries.items() if ALERTS in find_tables_in(query.sql))


def reads_alerts(rule: Rule) -> bool:
    """Whether the event query of a rule reads `alerts`, through derived streams too."""
    derived = {query.stream: query.expr for query in rule.derived}
    queries = list_event_queries(rule)
    if not any(ALERTS in text.lower() for text in (*queries, *derived.values())):
        return False
    tables = frozenset().union(*map(find_tables_in, queries))
    return ALERTS in find_tables_reached(tables, derived)


def find_bound_alerts(rule: Rule) -> frozenset[str]:
    """The rules whose alerts the event query of a rule reads. Raises `Unsupported`."""
    derived = {query.stream: query.expr for query in rule.derived}
    queries = list_event_queries(rule)
    tables = frozenset().union(*map(find_tables_in, queries))
    reached = find_tables_reached(tables, derived)
    texts = [*queries, *(derived[name] for name in sorted(reached & derived.keys()))]
    return frozenset().union(*map(find_bound_rules, texts))


def find_bound_rules(sql: str) -> frozenset[str]:
    """The rules by which a query bounds each `alerts` that it reads. Raises `Unsupported`."""
    rules: set[str] = set()
    for select in read_query(sql).find_all(exp.Select):
        sources = sources_of(select)
        for source in sources:
            if isinstance(source, exp.Table) and source.name.lower() == ALERTS:
                rules |= _find_rules(select, source, is_single=len(sources) == 1)
    return frozenset(rules)


def _find_rules(select: exp.Select, source: exp.Table, is_single: bool) -> frozenset[str]:
    alias = source.alias_or_name.lower()
    for condition in _conditions(select):
        values = _constants(condition, alias, is_single)
        if values is not None:
            return values
    raise Unsupported(
        "an event query over alerts must name the rules of these, e.g. "
        f"WHERE {source.alias_or_name}.rule IN ('group/Name', 'group/Other')",
        source,
    )


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    """The conditions that hold for all rows of a SELECT."""
    where = select.args.get("where")
    if where is not None:
        yield from where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    for join in joins_of(select):
        on = join.args.get("on")
        if on is not None and not join.side:
            yield from on.flatten() if isinstance(on, exp.And) else [on]


def _constants(condition: exp.Expr, alias: str, is_single: bool) -> frozenset[str] | None:
    """The values that a condition leaves for the column `rule` of a table; None: any."""
    condition = condition.unnest()
    if isinstance(condition, exp.EQ):
        sides = [condition.this, condition.expression]
        if isinstance(sides[0], exp.Literal):
            sides.reverse()
        column, values = sides[0], sides[1:]
    elif isinstance(condition, exp.In) and condition.args.get("query") is None:
        column, values = condition.this, condition.expressions
    else:
        return None
    if not isinstance(column, exp.Column) or column.name.lower() != _RULE:
        return None
    if column.table.lower() != alias and not (is_single and not column.table):
        return None
    if not values or not all(isinstance(v, exp.Literal) and v.is_string for v in values):
        return None
    return frozenset(value.name for value in values)
