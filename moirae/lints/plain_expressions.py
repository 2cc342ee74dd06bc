"""Lint of expressions that Spark evaluates though a plain one says the same. No I/O."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from moirae.config import Settings
from moirae.documents import KeyPath
from moirae.evaluation import IndexedRules, RuleGrouper
from moirae.evaluation.plan import ActiveRule
from moirae.lints.rewrites import rewrite
from moirae.rules import Definition, LintName
from recall.query import Unsupported, parse, read_query

# Only queries with one of these are parsed again.
_MENTION = re.compile(
    r"<=>|distinct\s+from|isnull|isnotnull|startswith|endswith|contains|instr|locate|position|"
    r"rlike|regexp|left|subst|nvl|coalesce|ifnull|\bif\b|abs",
    re.IGNORECASE,
)


def find_plain_expressions(
    definition: Definition,
    activate: Callable[[Definition], ActiveRule],
    settings: Settings,
) -> Iterator[tuple[LintName, KeyPath, str]]:
    """Conditions of `expr` with the plain ones, if with them Spark need not evaluate the rule."""
    expr = definition.spec.expr
    if expr is None or definition.reads_revisions or _MENTION.search(expr) is None:
        return
    try:
        if not any(map(rewrite, _list_conditions(read_query(expr)))):
            return
        query = parse(expr)
        rewritten = {
            node: plain for node in _list_conditions(query) if (plain := rewrite(node)) is not None
        }
        if _is_plain(activate(definition), settings):
            return
        messages = [_describe(node, plain) for node, plain in rewritten.items()]
        for node, plain in rewritten.items():
            node.replace(plain)
        spec = definition.spec.model_copy(update={"expr": query.sql(dialect="spark")})
        changed = replace(definition, rule=replace(definition.rule, spec=spec))
        if not _is_plain(activate(changed), settings):
            return
    except Unsupported:
        return
    for message in messages:
        yield "spark-expression", ("expr",), message


def _describe(node: exp.Expr, plain: exp.Expr) -> str:
    return (
        f"Spark evaluates `{node.sql(dialect='spark')}`; `{plain.sql(dialect='spark')}` says the same "
        "and is plain, so that the rule costs less"
    )


def _list_conditions(query: exp.Query) -> Iterator[exp.Expr]:
    for select in list(query.find_all(exp.Select)):
        for clause in ("where", "having"):
            condition = select.args.get(clause)
            if condition is not None:
                yield from (
                    list(condition.this.flatten())
                    if isinstance(condition.this, exp.And)
                    else [condition.this]
                )


def _is_plain(rule: ActiveRule, settings: Settings) -> bool:
    """Whether an engine other than Spark evaluates the rule."""
    columns = {name: stream.columns for name, stream in settings.streams.items()}
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    grouper = RuleGrouper(columns, relations)
    if grouper.explain_not_plain(rule) is None:
        return True
    return IndexedRules(columns, grouper).explain(grouper.group([rule]), rule) is not None
