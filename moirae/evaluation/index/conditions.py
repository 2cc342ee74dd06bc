"""Conditions compiled from SQL: tests of a row with the truth of Spark. No I/O."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from moirae.evaluation.index.anchors import Necessary, all_of, any_of
from moirae.evaluation.index.functions import compile_function, constant_text
from moirae.evaluation.index.like import ANY_TEXT, LikePart, split_like, to_regex
from moirae.evaluation.index.order import (
    OPPOSITES,
    ORDER_TESTS,
    bound_anchor,
    common_number,
    parse_literal,
)
from moirae.evaluation.index.patterns import TextTest, compile_regex
from moirae.evaluation.index.text_columns import map_text
from moirae.evaluation.index.values import (
    Row,
    RowLayout,
    RowTest,
    Value,
    change_case,
    column_value,
    constant_value,
)
from recall.errors import SparkRequired
from recall.query import clauses_of
from recall.query.plain import COMPARISONS

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class CompiledCondition(NamedTuple):
    """Tests whether a condition is true, and whether it is false, which NULL is not.

    `if_true`, `if_false`: what is necessary for either.
    """

    is_true: RowTest
    is_false: RowTest
    if_true: Necessary
    if_false: Necessary

    def negate(self) -> "CompiledCondition":
        """NOT."""
        return CompiledCondition(self.is_false, self.is_true, self.if_false, self.if_true)


class ConditionCompiler:
    """Compiles expressions over the rows of one table. All methods raise `SparkRequired`."""

    def __init__(self, layout: RowLayout, alias: str) -> None:
        """`alias`: of the table, as written."""
        self._layout = layout
        self._alias = alias.lower()

    # Conditions

    def compile_condition(self, node: exp.Expr) -> CompiledCondition:
        """A boolean expression."""
        node = node.unnest()
        if isinstance(node, exp.And):
            return _conjunction(list(map(self.compile_condition, node.flatten())))
        if isinstance(node, exp.Or):
            negated = [self.compile_condition(part).negate() for part in node.flatten()]
            return _conjunction(negated).negate()
        if isinstance(node, exp.Not):
            return self.compile_condition(node.this).negate()
        if type(node) in COMPARISONS:
            return self._compare(node.this, COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            above = self._compare(node.this, ">=", node.args["low"])
            return _conjunction([above, self._compare(node.this, "<=", node.args["high"])])
        if isinstance(node, exp.In) and clauses_of(node) == {"this", "expressions"}:
            return self._in_list(node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("isnull", "isnotnull"):
            (argument,) = node.expressions
            condition = self._is_null(argument)
            return condition if node.name.lower() == "isnull" else condition.negate()
        if isinstance(node, exp.NullSafeEQ):
            return self._equal_or_null(node)
        if isinstance(node, exp.Boolean):
            truth = bool(node.this)
            return CompiledCondition(lambda row: truth, lambda row: not truth, None, None)
        test = self._compile_text_test(node)
        if test is not None:
            return test
        return self._truth_value(self.compile_value(node))

    def _is(self, node: exp.Is) -> CompiledCondition:
        """IS NULL, IS TRUE and IS FALSE: true or false for each row."""
        if isinstance(node.expression, exp.Null):
            return self._is_null(node.this)
        if not isinstance(node.expression, exp.Boolean):
            raise SparkRequired("IS with more than NULL, TRUE and FALSE")
        condition = self.compile_condition(node.this)
        if not node.expression.this:
            condition = condition.negate()
        holds = condition.is_true
        return CompiledCondition(holds, lambda row: not holds(row), condition.if_true, None)

    def _is_null(self, node: exp.Expr) -> CompiledCondition:
        get = self.compile_value(node).get
        return CompiledCondition(
            lambda row: get(row) is None, lambda row: get(row) is not None, None, None
        )

    def _equal_or_null(self, node: exp.NullSafeEQ) -> CompiledCondition:
        """`<=>` with a constant: false for NULL."""
        if isinstance(node.expression, exp.Null):
            return self._is_null(node.this)
        if not self.compile_value(node.expression).is_constant:
            raise SparkRequired("<=> with a value that is not constant")
        equality = self._compare(node.this, "=", node.expression)
        is_true = equality.is_true
        return CompiledCondition(is_true, lambda row: not is_true(row), equality.if_true, None)

    def _truth_value(self, value: Value) -> CompiledCondition:
        if value.type != "boolean":
            raise SparkRequired("condition that is not boolean")
        get = value.get
        return CompiledCondition(
            lambda row: get(row) is True,
            lambda row: get(row) is False,
            value.equals(True),
            value.equals(False),
        )

    def _compile_text_test(self, node: exp.Expr) -> CompiledCondition | None:
        """A test of a text with a constant; None for other expressions."""
        if isinstance(node, exp.RegexpLike) and clauses_of(node) == {"this", "expression"}:
            return self._match(node)
        if isinstance(node, exp.Like | exp.ILike):
            return self._like(node)
        if not isinstance(node, exp.Contains | exp.StartsWith | exp.EndsWith):
            return None
        if clauses_of(node) - {"this", "expression"} - {"json_scope"}:
            raise SparkRequired("function with further arguments")
        value = self.compile_value(node.this)
        text = constant_text(node.expression, self)
        value.check_sigma(text)
        _check_text(value)
        necessary = value.contains(text)
        if isinstance(node, exp.Contains):
            return _text_condition(value, lambda candidate: text in candidate, necessary)
        if isinstance(node, exp.StartsWith):
            return _text_condition(value, lambda candidate: candidate.startswith(text), necessary)
        return _text_condition(value, lambda candidate: candidate.endswith(text), necessary)

    def _match(self, node: exp.RegexpLike) -> CompiledCondition:
        value = self.compile_value(node.this)
        _check_text(value)
        pattern = constant_text(node.expression, self)
        if not value.is_exact and not pattern.isascii():
            raise SparkRequired("regular expression beyond ASCII over lower(…)")
        return self._test_pattern(value, compile_regex(pattern))

    def _test_pattern(self, value: Value, test: TextTest) -> CompiledCondition:
        holds = test.holds
        necessary = test.necessary(value.contains)
        if value.is_raw and value.column is not None:
            slot = self._layout.slot(value.column, test.case)
            raw_slot = self._layout.slot(value.column)

            def is_true(row: Row) -> bool:
                text = row[slot]
                return text is not None and holds(text, row[raw_slot])

            def is_false(row: Row) -> bool:
                text = row[slot]
                return text is not None and not holds(text, row[raw_slot])

            return CompiledCondition(is_true, is_false, necessary, None)
        return _text_condition(
            value, lambda text: holds(map_text(text, test.case), text), necessary
        )

    def _like(self, node: exp.Like | exp.ILike) -> CompiledCondition:
        if clauses_of(node) - {"this", "expression", "negate"}:
            raise SparkRequired("LIKE with further clauses")
        value = self.compile_value(node.this)
        pattern = constant_text(node.expression, self)
        if isinstance(node, exp.ILike):
            value = change_case(value, "lower", self._layout)
            pattern = change_case(constant_value(pattern, "string"), "lower", self._layout).constant
        value.check_sigma(pattern)
        _check_text(value)
        condition = self._like_pattern(value, split_like(pattern))
        return condition.negate() if node.args.get("negate") else condition

    def _like_pattern(self, value: Value, parts: Sequence[LikePart]) -> CompiledCondition:
        starts = not parts or parts[0] != ANY_TEXT
        ends = not parts or parts[-1] != ANY_TEXT
        inner_parts = parts[int(not starts) : len(parts) - int(not ends)]
        if any(part.is_wildcard for part in inner_parts):
            return self._match_parts(value, parts)
        inner = "".join(part.text for part in inner_parts)
        necessary = value.contains(inner)
        if starts and ends:
            return self._equal(value, constant_value(inner, "string"))
        if starts:
            return _text_condition(value, lambda text: text.startswith(inner), necessary)
        if ends:
            return _text_condition(value, lambda text: text.endswith(inner), necessary)
        return _text_condition(value, lambda text: inner in text, necessary)

    def _match_parts(self, value: Value, parts: Sequence[LikePart]) -> CompiledCondition:
        # With a character after it, `$` does not match before a line end.
        test = compile_regex(f"(?s)^{to_regex(parts)}\\x00$")
        texts = [part.text for part in parts if not part.is_wildcard]
        necessary = all_of([value.contains(text) for text in texts])
        return _text_condition(value, lambda text: test.holds(text + "\0", text), necessary)

    # Comparisons

    def _compare(self, left_node: exp.Expr, sign: str, right_node: exp.Expr) -> CompiledCondition:
        value, operand = self.compile_value(left_node), self.compile_value(right_node)
        if value.is_constant and not operand.is_constant:
            value, operand, sign = operand, value, _MIRRORED[sign]
        if not operand.is_constant:
            return self._compare_values(value, sign, operand)
        if sign == "=":
            return self._equal(value, operand)
        if sign == "<>":
            return self._equal(value, operand).negate()
        return self._order(value, sign, operand)

    def _equal(self, value: Value, constant: Value) -> CompiledCondition:
        expected = constant.constant
        if value.type == "boolean" and constant.type == "boolean":
            condition = self._truth_value(value)
            return condition if expected else condition.negate()
        if value.type != "string" or constant.type != "string":
            return self._order(value, "=", constant)
        value.check_sigma(expected)
        return _text_condition(value, lambda text: text == expected, value.equals(expected))

    def _order(self, value: Value, sign: str, constant: Value) -> CompiledCondition:
        bound = constant.constant
        if value.type == "string" and constant.type == "string":
            value.check_sigma(bound)
            if not value.is_exact and not bound.isascii():
                raise SparkRequired("order of lower(…)")
            convert = None
        else:
            convert, bound = common_number(value, constant)
        get = value.get
        test = ORDER_TESTS[sign]
        opposite = ORDER_TESTS[OPPOSITES[sign]]

        def is_true(row: Row) -> bool:
            operand = get(row)
            if operand is None:
                return False
            return test(operand if convert is None else convert(operand), bound)

        def is_false(row: Row) -> bool:
            operand = get(row)
            if operand is None:
                return False
            return opposite(operand if convert is None else convert(operand), bound)

        return CompiledCondition(
            is_true,
            is_false,
            bound_anchor(value, sign, bound),
            bound_anchor(value, OPPOSITES[sign], bound),
        )

    def _compare_values(self, value: Value, sign: str, operand: Value) -> CompiledCondition:
        integers = {"int", "bigint"}
        is_comparable = value.type == operand.type or {value.type, operand.type} <= integers
        if not is_comparable or value.type == "double" or not (value.is_exact and operand.is_exact):
            raise SparkRequired("comparison of values of these types")
        get_value, get_operand = value.get, operand.get
        test, opposite = ORDER_TESTS[sign], ORDER_TESTS[OPPOSITES[sign]]

        def compare(row: Row, holds: Callable[[Any, Any], bool]) -> bool:
            a, b = get_value(row), get_operand(row)
            return a is not None and b is not None and holds(a, b)

        return CompiledCondition(
            lambda row: compare(row, test), lambda row: compare(row, opposite), None, None
        )

    def _in_list(self, node: exp.In) -> CompiledCondition:
        value = self.compile_value(node.this)
        constants = list(map(self.compile_value, node.expressions))
        if value.type != "string" or not all(
            constant.is_constant and constant.type == "string" for constant in constants
        ):
            equalities = [self._compare(node.this, "=", part).negate() for part in node.expressions]
            return _conjunction(equalities).negate()
        texts = frozenset(constant.constant for constant in constants)
        for text in texts:
            value.check_sigma(text)
        necessary = any_of([value.equals(text) for text in sorted(texts)])
        return _text_condition(value, lambda text: text in texts, necessary)

    # Values

    def compile_value(self, node: exp.Expr) -> Value:
        """An expression of any type."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            self.check_column(node)
            return column_value(self._layout, node.name)
        if isinstance(node, exp.Literal):
            return parse_literal(node, "")
        if isinstance(node, exp.RawString):
            return constant_value(str(node.this), "string")
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and node.this.is_number:
            return parse_literal(node.this, "-")
        if isinstance(node, exp.Boolean):
            return constant_value(bool(node.this), "boolean")
        if isinstance(node, exp.Lower | exp.Upper):
            case = "lower" if isinstance(node, exp.Lower) else "upper"
            return change_case(self.compile_value(node.this), case, self._layout)  # type: ignore[arg-type]
        return compile_function(node, self)

    def compile_test(self, node: exp.Expr) -> RowTest:
        """Whether a condition is true."""
        return self.compile_condition(node).is_true

    def check_column(self, node: exp.Column) -> None:
        """Raises `SparkRequired` for a column of another table."""
        if node.db or node.table.lower() not in ("", self._alias):
            raise SparkRequired("column of another table")


def _conjunction(conditions: Sequence[CompiledCondition]) -> CompiledCondition:
    """AND."""
    truths = [condition.is_true for condition in conditions]
    falsehoods = [condition.is_false for condition in conditions]

    def is_true(row: Row) -> bool:
        for test in truths:
            if not test(row):
                return False
        return True

    def is_false(row: Row) -> bool:
        for test in falsehoods:
            if test(row):
                return True
        return False

    return CompiledCondition(
        is_true,
        is_false,
        all_of([condition.if_true for condition in conditions]),
        any_of([condition.if_false for condition in conditions]),
    )


def _text_condition(
    value: Value, holds: Callable[[str], bool], necessary: Necessary
) -> CompiledCondition:
    get = value.get

    def is_true(row: Row) -> bool:
        text = get(row)
        return text is not None and holds(text)

    def is_false(row: Row) -> bool:
        text = get(row)
        return text is not None and not holds(text)

    return CompiledCondition(is_true, is_false, necessary, None)


def _check_text(value: Value) -> None:
    if value.type != "string":
        raise SparkRequired("test of a text over a value that is none")
