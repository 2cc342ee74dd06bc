"""Event queries of Sigma correlations: what happened up to each event, within the time span. No I/O.

Each event of the correlated rules is joined with those of its group in the time span before it, and
the condition is about these: windows do not start at full minutes, so that nothing is missed at
their borders.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sigma.correlations import (
    CorrelationConditionAND,
    CorrelationConditionNOT,
    CorrelationConditionOR,
    SigmaCorrelationRule,
    SigmaCorrelationType,
    SigmaExtendedCorrelationCondition,
    SigmaRuleReference,
)
from sigma.rule import SigmaRule

from moirae.errors import NotImported
from moirae.sigma.fields import NUMBERS, MappedField, StreamFields
from moirae.sigma.queries import QueryWriter, check_size
from moirae.sigma.sql_text import quote_name

_MAX_ORDERED = 4  # rules of an ordered correlation: each is a join
_MAX_TIMESPAN = 366 * 86_400  # seconds that each event looks back
_OPERATORS = {"LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "EQ": "=", "NEQ": "<>"}
_VALUE = "matched_value"
_RULE = "matched_rule"
_ROW = "matched_row"


class CorrelationQuery(NamedTuple):
    """The query of a correlation, and the columns by which it groups."""

    sql: str
    groups: tuple[str, ...]


class _Member(NamedTuple):
    """A correlated rule: its condition, and the fields of its rows."""

    references: frozenset[str]
    condition: str
    fields: StreamFields
    aliases: Mapping[str, str]

    def resolve(self, field: str) -> MappedField:
        return self.fields.resolve(self.aliases.get(field, field))


class CorrelationWriter:
    """Writes the queries of correlations."""

    def __init__(self, queries: QueryWriter) -> None:
        self._queries = queries

    def write(self, rule: SigmaCorrelationRule) -> CorrelationQuery:
        """Raises `NotImported`."""
        if rule.errors:
            raise NotImported("invalid", str(rule.errors[0]))
        if rule.timespan.seconds > _MAX_TIMESPAN:
            raise NotImported("correlation", "a time span of more than a year")
        members = [self._member(rule, reference) for reference in rule.referenced_rules]
        groups = {self._name_group(field, members): field for field in rule.group_by or ()}
        if len(groups) < len(rule.group_by or ()):
            raise NotImported("correlation", "group-by names a column twice")
        if rule.type is SigmaCorrelationType.TEMPORAL_ORDERED:
            sql = self._write_ordered(rule, members, groups)
        else:
            sql = self._write_window(rule, members, groups)
        for member in members:
            self._queries.check_missing(member.fields)
        check_size(sql)
        return CorrelationQuery(sql, tuple(groups))

    def _name_group(self, field: str, members: Sequence[_Member]) -> str:
        """The column that a field is, or else a column with the name of the field."""
        columns = {member.resolve(field).sql for member in members}
        if len(columns) == 1 and columns <= self._queries.layout.columns.keys():
            return columns.pop()
        name = "".join(c if c.isascii() and c.isalnum() else "_" for c in field)
        return name if quote_name(name) == name else f"field_{name}"

    def _member(self, rule: SigmaCorrelationRule, reference: SigmaRuleReference) -> _Member:
        referenced: Any = reference.rule
        assert isinstance(referenced, SigmaRule)
        fields, condition = self._queries.write_condition(referenced)
        names = {reference.reference, str(referenced.id), str(referenced.name)}
        aliases: dict[str, str] = {}
        for alias in rule.aliases:
            for alias_reference, field in alias.mapping.items():
                if alias_reference.reference in names:
                    aliases[alias.alias] = field
        return _Member(frozenset(names), condition, fields, aliases)

    # Counts, and rules in any order

    def _write_window(
        self, rule: SigmaCorrelationRule, members: Sequence[_Member], groups: Mapping[str, str]
    ) -> str:
        value_field = _value_field(rule)
        measure = self._measure(rule, members)
        outputs = [*groups, "max(ts) AS ts"]
        having = measure
        if not isinstance(rule.condition, SigmaExtendedCorrelationCondition):
            count = rule.condition.count
            if _holds_only_without_events(rule.condition.op.name, count):
                raise NotImported("correlation", "that nothing happened, which no event shows")
            having = f"{measure} {_OPERATORS[rule.condition.op.name]} {count}"
            outputs.append(f"{measure} AS n")
        events = self._rows(members, groups, None, "")
        earlier = self._rows(members, groups, value_field, "row")
        selected = ", ".join(["a.ts AS ts", *(f"a.{name} AS {name}" for name in groups)])
        conditions = [f"b.{name} = a.{name}" for name in groups]
        conditions.append(_time_bounds("b", "a", rule.timespan.seconds))
        return (
            f"SELECT {', '.join(outputs)}\n"
            f"FROM (\n"
            f"  SELECT {selected}, b.{_RULE} AS {_RULE}, b.{_ROW} AS {_ROW}"
            f"{f', b.{_VALUE} AS {_VALUE}' if value_field else ''}\n"
            f"  FROM (\n{events}\n  ) a JOIN (\n{earlier}\n  ) b\n"
            f"  ON {' AND '.join(conditions)}\n"
            f") pairs\n"
            f"GROUP BY {', '.join([*groups, 'ts'])}, window(ts, '1 second')\n"
            f"HAVING {having}"
        )

    def _measure(self, rule: SigmaCorrelationRule, members: Sequence[_Member]) -> str:
        """What the condition is about: a count, or for an extended condition its truth."""
        match rule.type:
            case SigmaCorrelationType.EVENT_COUNT:
                return f"count(DISTINCT {_ROW})"
            case SigmaCorrelationType.VALUE_COUNT:
                return f"count(DISTINCT {_VALUE})"
            case SigmaCorrelationType.TEMPORAL:
                if isinstance(rule.condition, SigmaExtendedCorrelationCondition):
                    return _write_extended(rule.condition.parsed, members)
                return f"count(DISTINCT {_RULE})"
        raise NotImported("correlation", f"{rule.type} of values in a time span that slides")

    def _rows(
        self,
        members: Sequence[_Member],
        groups: Mapping[str, str],
        value_field: str | None,
        identity: str,
    ) -> str:
        """The rows that the correlated rules match, each with the number of its rule."""
        queries: list[str] = []
        for number, member in enumerate(members, 1):
            outputs = [_as(self._queries.time_sql, "ts")]
            outputs += [_as(member.resolve(field).sql, name) for name, field in groups.items()]
            if identity:
                columns = map(quote_name, self._queries.id_columns)
                row = ", ".join([*columns, self._queries.time_sql])
                outputs += [f"{number} AS {_RULE}", f"struct({row}) AS {_ROW}"]
            if value_field is not None:
                outputs.append(f"{_value_sql(member.resolve(value_field))} AS {_VALUE}")
            queries.append(
                f"    SELECT {', '.join(outputs)} FROM {self._queries.layout.stream}\n"
                f"    WHERE {_indent(member.condition)}"
            )
        return "\n    UNION ALL\n".join(queries)

    # Rules in order

    def _write_ordered(
        self, rule: SigmaCorrelationRule, members: Sequence[_Member], groups: Mapping[str, str]
    ) -> str:
        condition = rule.condition
        if isinstance(condition, SigmaExtendedCorrelationCondition):
            raise NotImported("correlation", "a condition of its own on rules in order")
        if condition.op.name != "GTE" or condition.count != len(members):
            raise NotImported("correlation", "a number of rules in order other than all of them")
        if not 1 < len(members) <= _MAX_ORDERED:
            reason = f"{len(members)} rules in order; 2 to {_MAX_ORDERED} are supported"
            raise NotImported("correlation", reason)
        *earlier, last = range(len(members))
        outputs = [f"r{last}.ts AS ts", *(f"r{last}.{name} AS {name}" for name in groups)]
        sql = (
            f"SELECT {', '.join(outputs)}\nFROM {self._ordered_rows(members[last], groups)} r{last}"
        )
        for number in reversed(earlier):
            conditions = [f"r{number}.{name} = r{last}.{name}" for name in groups]
            conditions.append(_time_bounds(f"r{number}", f"r{last}", rule.timespan.seconds))
            if number + 1 != last:
                conditions.append(f"r{number}.ts <= r{number + 1}.ts")
            rows = self._ordered_rows(members[number], groups)
            sql += f"\nJOIN {rows} r{number}\n  ON {' AND '.join(conditions)}"
        return sql

    def _ordered_rows(self, member: _Member, groups: Mapping[str, str]) -> str:
        return f"(\n{self._rows([member], groups, None, '')}\n  )"


def _write_extended(node: Any, members: Sequence[_Member]) -> str:
    """A condition over rules of which an event is in the time span."""
    if isinstance(node, SigmaRuleReference):
        for number, member in enumerate(members, 1):
            if node.reference in member.references:
                return f"bool_or({_RULE} = {number})"
        raise NotImported("correlation", f"its condition names {node.reference}, no rule of it")
    operands = [_write_extended(argument, members) for argument in node.args]
    if isinstance(node, CorrelationConditionNOT):
        return f"NOT ({operands[0]})"
    assert isinstance(node, CorrelationConditionAND | CorrelationConditionOR)
    operator = " AND " if isinstance(node, CorrelationConditionAND) else " OR "
    return f"({operator.join(operands)})"


def _holds_only_without_events(operator: str, count: float) -> bool:
    """Whether a condition does not hold for any count from one on."""
    return (operator in ("LTE", "EQ") and count < 1) or (operator == "LT" and count <= 1)


def _value_field(rule: SigmaCorrelationRule) -> str | None:
    if rule.type is not SigmaCorrelationType.VALUE_COUNT:
        return None
    field = getattr(rule.condition, "fieldref", None)
    if not isinstance(field, str):
        raise NotImported("correlation", "values of several fields counted together")
    return field


def _value_sql(field: MappedField) -> str:
    if field.type in NUMBERS or field.type != "string":
        return f"CAST({field.sql} AS STRING)"
    return field.sql


def _time_bounds(alias: str, anchor: str, seconds: int) -> str:
    """The condition that a row is in the time span that ends with another."""
    return f"{alias}.ts BETWEEN {anchor}.ts - INTERVAL {seconds} SECONDS AND {anchor}.ts"


def _as(sql: str, name: str) -> str:
    return sql if sql == name else f"{sql} AS {name}"


def _indent(condition: str) -> str:
    return condition.replace("\n", "\n    ")
