"""Conditions of Sigma rules in Spark SQL: a backend of pySigma. No I/O.

It writes what the compiled evaluator of rules takes (`moirae.evaluation.index`), where the
condition permits. NOT is true where its operand is NULL: to Sigma, a field that is missing does
not match.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionItem,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.conversion.base import TextQueryBackend
from sigma.conversion.state import ConversionState
from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
from sigma.processing.transformations import ValueListPlaceholderTransformation
from sigma.rule import SigmaRule
from sigma.types import (
    CompareOperators,
    SigmaCasedString,
    SigmaRegularExpression,
    SigmaRegularExpressionFlag,
    SigmaString,
    SpecialChars,
    TimestampPart,
)

from moirae.errors import NotImported
from moirae.sigma.fields import NUMBERS, TIMES, MappedField, StreamFields
from moirae.sigma.networks import network_pattern
from moirae.sigma.predicates import TextMatch, join_chain, match_any_text, match_text, parse_text
from moirae.sigma.regex_syntax import to_java_regex
from moirae.sigma.sql_text import quote_text

_FLAGS = {
    SigmaRegularExpressionFlag.IGNORECASE: "i",
    SigmaRegularExpressionFlag.MULTILINE: "m",
    SigmaRegularExpressionFlag.DOTALL: "s",
}
_OPERATORS = {
    CompareOperators.LT: "<",
    CompareOperators.LTE: "<=",
    CompareOperators.GT: ">",
    CompareOperators.GTE: ">=",
    CompareOperators.NEQ: "<>",
}
# Weeks are left out: Sigma does not say how they are numbered.
_TIME_FUNCTIONS = {
    TimestampPart.MINUTE: "minute",
    TimestampPart.HOUR: "hour",
    TimestampPart.DAY: "day",
    TimestampPart.MONTH: "month",
    TimestampPart.YEAR: "year",
}

_MAX_LINES = 50  # operands of the outermost AND, each on a line

FieldCondition = ConditionFieldEqualsValueExpression
Condition = ConditionItem | FieldCondition | ConditionValueExpression


class _Atom(str):
    """An expression that needs no brackets inside others."""


class SparkBackend(TextQueryBackend):
    """Writes conditions over the fields of a stream. All methods raise `NotImported`."""

    name: ClassVar[str] = "Spark SQL of Moirae"
    group_expression: ClassVar[str] = "({expr})"
    or_token: ClassVar[str] = "OR"
    and_token: ClassVar[str] = "AND"
    not_token: ClassVar[str] = "NOT"
    eq_token: ClassVar[str] = " = "
    # Says that existence and its contrary have expressions of their own.
    field_not_exists_expression: ClassVar[str] = "{field} IS NULL"

    def __init__(
        self, fields: StreamFields, placeholders: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        pipeline = ProcessingPipeline(
            items=[ProcessingItem(ValueListPlaceholderTransformation())] if placeholders else [],
            vars={name: list(values) for name, values in (placeholders or {}).items()},
        )
        super().__init__(pipeline)
        self._fields = fields

    def convert_detection(self, rule: SigmaRule) -> str:
        """The condition of a rule: one of its alternatives holds."""
        self.init_processing_pipeline()
        self.last_processing_pipeline.apply(rule)
        conditions = [condition.parsed for condition in rule.detection.parsed_condition]
        if len(conditions) == 1 and isinstance(conditions[0], ConditionAND):
            operands = self._operands(conditions[0], ConversionState())
            if 1 < len(operands) <= _MAX_LINES:
                return "\n  AND ".join(operands)
        alternatives = [self.convert_condition(part, ConversionState()) for part in conditions]
        if not all(alternatives):
            raise NotImported("invalid", "the condition is empty")
        if len(alternatives) == 1:
            return str(alternatives[0])
        return join_chain([f"({sql})" for sql in alternatives], "OR")

    # Operators

    def convert_condition_group(self, cond: Any, state: ConversionState) -> Any:
        """An operand in brackets, if it needs them."""
        sql: Any = self.convert_condition(cond, state)
        return sql if sql is None or isinstance(sql, _Atom) else f"({sql})"

    def convert_condition_or(self, cond: ConditionOR, state: ConversionState) -> Any:
        """OR; comparisons of one field are collected."""
        operands: dict[Any, list[Any]] = {}
        for number, argument in enumerate(cond.args):
            match = self._find_text_match(argument)
            if match is None:
                operands[number] = [argument]
                continue
            group = (argument.field, match.kind, match.ignores_case)  # type: ignore[union-attr]
            operands.setdefault(group, []).append(match)
        parts: list[str] = []
        for group, members in operands.items():
            if isinstance(group, tuple):
                parts += match_any_text(self._fields.resolve(group[0]), members)
                continue
            sql = self._operand(cond, members[0], state)
            if sql is not None:
                parts.append(sql)
        return self._join(parts, "OR")

    def convert_condition_and(self, cond: ConditionAND, state: ConversionState) -> Any:
        """AND."""
        return self._join(self._operands(cond, state), "AND")

    def convert_condition_not(self, cond: ConditionNOT, state: ConversionState) -> Any:
        """NOT, which is true where the operand is NULL."""
        operand: Any = self.convert_condition(cond.args[0], state)
        return None if operand is None else _Atom(f"({operand}) IS NOT TRUE")

    def _operands(self, cond: ConditionAND, state: ConversionState) -> list[str]:
        operands: list[str] = []
        for argument in cond.args:
            if isinstance(argument, ConditionAND):
                operands += self._operands(argument, state)
                continue
            sql = self._operand(cond, argument, state)
            if sql is not None:
                operands.append(sql)
        return operands

    def _operand(self, outer: Any, argument: Any, state: ConversionState) -> str | None:
        sql: Any
        if self.compare_precedence(outer, argument):
            sql = self.convert_condition(argument, state)
        else:
            sql = self.convert_condition_group(argument, state)
        return None if sql is None else str(sql)

    def _join(self, parts: list[str], operator: Any) -> str | None:
        if len(parts) == 1:
            return _Atom(parts[0])
        return join_chain(parts, operator) if parts else None

    def _find_text_match(self, argument: Any) -> TextMatch | None:
        """The comparison of a field with a text; None for other conditions."""
        if not isinstance(argument, FieldCondition) or not isinstance(argument.value, SigmaString):
            return None
        match = parse_text(argument.value, isinstance(argument.value, SigmaCasedString))
        return None if match.kind in ("any", "like") else match

    # A field and a value

    def convert_condition_field_eq_val_str(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """Text, in any case."""
        assert isinstance(cond.value, SigmaString)
        return match_text(self._fields.resolve(cond.field), parse_text(cond.value))

    def convert_condition_field_eq_val_str_case_sensitive(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """Text, in this case."""
        assert isinstance(cond.value, SigmaString)
        match = parse_text(cond.value, is_cased=True)
        return match_text(self._fields.resolve(cond.field), match)

    def convert_condition_field_eq_val_num(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """A number; of a column of text its digits."""
        field = self._fields.resolve(cond.field)
        if field.type in NUMBERS:
            return f"{field.sql} = {cond.value}"
        return f"{field.text_sql} = {quote_text(str(cond.value))}"

    def convert_condition_field_eq_val_bool(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """A boolean, also as text or as 1 and 0."""
        field = self._fields.resolve(cond.field)
        is_true = bool(cond.value)
        if field.type == "boolean":
            return f"{field.sql} = {str(is_true).lower()}"
        if field.type in NUMBERS:
            return f"{field.sql} = {int(is_true)}"
        return f"lower({field.text_sql}) IN ('{str(is_true).lower()}', '{int(is_true)}')"

    def convert_condition_field_eq_val_re(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """A regular expression."""
        assert isinstance(cond.value, SigmaRegularExpression)
        return _match_regex(self._fields.resolve(cond.field), cond.value)

    def convert_condition_field_eq_val_cidr(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """The addresses of a network."""
        field = self._fields.resolve(cond.field)
        value: Any = cond.value
        return f"{field.text_sql} RLIKE {quote_text(network_pattern(value.network))}"

    def convert_condition_field_compare_op_val(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """An order of numbers; a text that is no number matches nothing."""
        field = self._fields.resolve(cond.field)
        value: Any = cond.value
        operator = _OPERATORS[value.op]
        part = getattr(value.number, "timestamp_part", None)
        if part is not None:
            return f"{_time_part(field, part)} {operator} {value.number}"
        if field.type in NUMBERS:
            return f"{field.sql} {operator} {value.number}"
        if field.type != "string":
            raise NotImported("type", f"{field.sql} is a {field.type}, compared with a number")
        return f"try_cast({field.sql} AS DOUBLE) {operator} {value.number}"

    def convert_condition_field_eq_val_timestamp_part(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """A part of a time, such as its hour."""
        value: Any = cond.value
        return f"{_time_part(self._fields.resolve(cond.field), value.timestamp_part)} = {value}"

    def convert_condition_field_eq_field(self, cond: FieldCondition, state: ConversionState) -> Any:
        """The value of another field."""
        reference: Any = cond.value
        field, other_field = self._fields.resolve(cond.field), self._fields.resolve(reference.field)
        is_part = reference.starts_with or reference.ends_with
        both = {field.type, other_field.type}
        if not is_part and "string" not in both and (len(both) == 1 or both <= NUMBERS):
            return f"{field.sql} = {other_field.sql}"
        left, right = f"lower({field.text_sql})", f"lower({other_field.text_sql})"
        if reference.starts_with and reference.ends_with:
            return f"contains({left}, {right})"
        if is_part:
            function = "startswith" if reference.starts_with else "endswith"
            return f"{function}({left}, {right})"
        return f"{left} = {right}"

    def convert_condition_field_eq_val_null(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """No value."""
        return f"{self._fields.resolve(cond.field).sql} IS NULL"

    def convert_condition_field_exists(self, cond: FieldCondition, state: ConversionState) -> Any:
        """Any value."""
        return f"{self._fields.resolve(cond.field).sql} IS NOT NULL"

    def convert_condition_field_not_exists(
        self, cond: FieldCondition, state: ConversionState
    ) -> Any:
        """No value."""
        return f"{self._fields.resolve(cond.field).sql} IS NULL"

    # Keywords: values without a field

    def convert_condition_val_str(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        """A text anywhere in a column of text."""
        value: Any = cond.value
        any_text = SpecialChars.WILDCARD_MULTI
        match = parse_text(any_text + value + any_text, isinstance(value, SigmaCasedString))
        return self._any_keyword_column(lambda column: match_text(column, match))

    def convert_condition_val_num(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        """The digits of a number anywhere in a column of text."""
        match = TextMatch("contains", str(cond.value), True)
        return self._any_keyword_column(lambda column: match_text(column, match))

    def convert_condition_val_re(
        self, cond: ConditionValueExpression, state: ConversionState
    ) -> Any:
        """A regular expression over the columns of text."""
        value = cond.value
        assert isinstance(value, SigmaRegularExpression)
        return self._any_keyword_column(lambda column: _match_regex(column, value))

    def _any_keyword_column(self, write: Any) -> str:
        if not self._fields.keywords:
            raise NotImported(
                "keywords", "keywords without a field; name the columns under keywords in the map"
            )
        parts = [write(column) for column in self._fields.keywords]
        if len(parts) == 1:
            return str(parts[0])
        return _Atom(f"({join_chain(parts, 'OR')})")


def _match_regex(field: MappedField, value: SigmaRegularExpression) -> str:
    flags = "".join(_FLAGS[flag] for flag in value.flags)
    if value.contains_placeholder():
        raise NotImported("placeholder", "a placeholder in a regular expression has no values")
    pattern = to_java_regex(value.regexp.to_plain_regex(), flags)
    return f"{field.text_sql} RLIKE {quote_text(pattern)}"


def _time_part(field: MappedField, part: TimestampPart) -> str:
    function = _TIME_FUNCTIONS.get(part)
    if function is None:
        raise NotImported("value", "the number of a week, whose meaning Sigma leaves open")
    if field.type not in TIMES:
        raise NotImported("type", f"{field.sql} is a {field.type}, not a time")
    return f"{function}({field.sql})"
