"""Spark SQL that evaluates several rules in one statement. No I/O.

A statement is a union of branches with the columns `rule` (a number), `ts` and `attributes` (a JSON
object).
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from moirae.evaluation.index import find_scan
from moirae.evaluation.plan import ActiveRule

LOST_RULE = "_lost_rule"
LOSS_SETTINGS = {"spark.sql.subexpressionElimination.enabled": "false"}
_FILTER_CLAUSES = {"expressions", "from_", "where"}  # of a query that is no more than a filter


class NumberedQuery(NamedTuple):
    """A rule with its number in a statement and its bound event query."""

    number: int
    rule: ActiveRule
    query: exp.Query


class RowVerdict(NamedTuple):
    """What a rule evaluates for each row of a source: a text, or NULL."""

    source: str
    expression: str


def build_branches(queries: Sequence[NumberedQuery]) -> list[str]:
    """Branches for the queries of rules.

    Filters over the same stream become one branch that scans the stream once. Each other query is a
    branch of its own.
    """
    arms_by_source: dict[str, list[str]] = {}
    branches: list[str] = []
    for number, rule, query in queries:
        arm = _build_filter_arm(number, rule, query)
        if arm is None:
            branches.append(_build_branch(number, rule.columns, query))
        else:
            source = query.args["from_"].this.sql(dialect="spark")
            arms_by_source.setdefault(source, []).append(arm)
    for source, arms in arms_by_source.items():
        rows = f"explode(filter(array({', '.join(arms)}), found -> found IS NOT NULL)) AS found"
        branches.append(f"SELECT found.* FROM (SELECT {rows} FROM {source})")
    return branches


def build_batch_branch(query: str, columns: Sequence[str]) -> str:
    """A branch for rules of one shape. `query`: their plain query, with the outputs `c<n>`."""
    fields: list[str] = []
    for number, column in enumerate(columns):
        fields.append(f"'{column}', found.c{number}")
    attributes = _to_json_sql(fields)
    return f"SELECT found.rule, found.ts, {attributes} AS attributes FROM ({query}) AS found"


def find_verdict(rule: ActiveRule, query: exp.Query, view: str) -> RowVerdict | None:
    """What is evaluated for each row that a query reads of a view; None: not known."""
    arm = _build_filter_arm(0, rule, query)
    if arm is not None:
        return RowVerdict(query.args["from_"].this.sql(dialect="spark"), f"to_json({arm})")
    scan = find_scan(query, [view])
    if scan is None:
        return None
    select, table = scan
    where = select.args.get("where")
    if where is None or select.args.get("joins"):
        return None
    condition = where.this.sql(dialect="spark")
    return RowVerdict(table.sql(dialect="spark"), f"CAST({condition} AS string)")


def build_filter_query(rule: ActiveRule, query: exp.Query) -> str | None:
    """The event of a filter for each row, or NULL, as the column `event`; None: it is no filter."""
    arm = _build_filter_arm(0, rule, query)
    if arm is None:
        return None
    return f"SELECT {arm} AS event FROM {query.args['from_'].this.sql(dialect='spark')}"


def build_loss_query(verdicts: Sequence[RowVerdict], source: str) -> str:
    """The rows of a source for which a verdict fails; `LOST_RULE` has the number of the verdict.

    An expression that fails is NULL within `try_to_binary`; without the elimination of common
    subexpressions, which would be evaluated outside of it (see `LOSS_SETTINGS`).
    """
    numbers: list[str] = []
    for number, verdict in enumerate(verdicts):
        guarded = f"try_to_binary(coalesce({verdict.expression}, ''), 'utf-8')"
        numbers.append(f"if({guarded} IS NULL, {number}, NULL)")
    lost = f"explode(filter(array({', '.join(numbers)}), number -> number IS NOT NULL))"
    return f"SELECT *, {lost} AS {LOST_RULE} FROM {source}"


def _build_branch(number: int, columns: Sequence[str], query: exp.Query) -> str:
    attributes = _to_json_sql([f"'{column}', found.`{column}`" for column in columns])
    return (
        f"SELECT {number} AS rule, CAST(found.ts AS timestamp) AS ts, {attributes} AS attributes "
        f"FROM ({query.sql(dialect='spark')}) AS found"
    )


def _build_filter_arm(number: int, rule: ActiveRule, query: exp.Query) -> str | None:
    """`if(condition, row, NULL)` for a filter over the columns of one stream, else None."""
    if not isinstance(query, exp.Select):
        return None
    clauses = {name for name, value in query.args.items() if value}
    if clauses - _FILTER_CLAUSES or not isinstance(query.args["from_"].this, exp.Table):
        return None
    outputs: dict[str, exp.Expr] = {}
    aliases: set[str] = set()
    for projection in query.expressions:
        name = projection.alias_or_name.lower()
        if isinstance(projection, exp.Alias):
            aliases.add(name)
            outputs[name] = projection.this
        else:
            outputs[name] = projection
    if outputs.keys() != {column.lower() for column in (*rule.columns, "ts")}:
        return None  # a star, or names that only Spark resolves
    for expression in outputs.values():
        columns = {column.name.lower() for column in expression.find_all(exp.Column)}
        if columns & aliases and not isinstance(expression, exp.Column):
            return None  # a name may refer to an alias in the same SELECT
    fields: list[str] = []
    for column in rule.columns:
        fields.append(f"'{column}', {outputs[column.lower()].sql(dialect='spark')}")
    condition = "true"
    where = query.args.get("where")
    if where:
        condition = where.this.sql(dialect="spark")
    time = outputs["ts"].sql(dialect="spark")
    return (
        f"if({condition}, named_struct('rule', {number}, 'ts', CAST({time} AS timestamp), "
        f"'attributes', {_to_json_sql(fields)}), NULL)"
    )


def _to_json_sql(fields: Sequence[str]) -> str:
    """A JSON object as text. `fields`: each "'name', value"."""
    if not fields:
        return "'{}'"
    options = (
        "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")"
    )
    return f"to_json(named_struct({', '.join(fields)}), {options})"
