"""Warnings about regular expressions in the queries of a rule whose time may explode."""

import re
from collections.abc import Iterator

from sqlglot import exp

from moirae.rules.checks.pattern_time import find_slow_part
from moirae.rules.checks.rule_warnings import RuleWarning
from moirae.rules.revision_streams import list_queries
from moirae.rules.rule_set import Rule
from recall.query import Unsupported, read_query

_MENTION = re.compile("regexp|rlike|split", re.IGNORECASE)
_PATTERN_NODES = (
    exp.RegexpLike,
    exp.RegexpILike,
    exp.RegexpExtract,
    exp.RegexpExtractAll,
    exp.RegexpReplace,
    exp.RegexpSplit,
    exp.RegexpCount,
    exp.RegexpInstr,
)
_FUNCTION = re.compile("regexp|rlike", re.IGNORECASE)


def find_pattern_warnings(rule: Rule) -> Iterator[RuleWarning]:
    """A warning for each pattern whose time may grow faster than the length of a value."""
    queries: dict[tuple[str | int, ...], str] = dict(list_queries(rule.spec))
    if rule.spec.expr is not None:
        queries = {("expr",): rule.spec.expr, **queries}
    for path, sql in queries.items():
        for pattern in _list_patterns(sql):
            slow_part = find_slow_part(pattern)
            if slow_part is not None:
                before = sql[: max(0, sql.find(pattern))]
                yield RuleWarning(
                    "time of a regular expression may grow faster than the length of a value: "
                    f"{slow_part}; rows for which it needs too many steps have no verdict",
                    path,
                    line=before.count("\n") + 1,
                    column=len(before) - before.rfind("\n"),
                )


def _list_patterns(sql: str) -> list[str]:
    """The constant patterns of a query, each once."""
    if _MENTION.search(sql) is None:
        return []
    try:
        query = read_query(sql)
    except Unsupported:
        return []
    patterns: dict[str, None] = {}
    for node in query.walk():
        operand = None
        if isinstance(node, _PATTERN_NODES):
            operand = node.args.get("expression")
        elif isinstance(node, exp.Anonymous) and _FUNCTION.match(node.name):
            operand = node.expressions[1] if len(node.expressions) > 1 else None
        if operand is not None:
            patterns |= dict.fromkeys(_list_texts(operand))
    return list(patterns)


def _list_texts(operand: exp.Expr) -> Iterator[str]:
    for node in operand.find_all(exp.Literal, exp.RawString):
        if isinstance(node, exp.RawString) or node.is_string:
            yield node.this
