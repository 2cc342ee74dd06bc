"""Expressions that mean the same in Spark and in DuckDB, written with explicit types.

This is the one check of expressions: for rules, for recalls and for conditions. What it accepts has
equal results in both engines also as written, with the engines' own conversions of types.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from recall.errors import SparkRequired
from recall.query.parts import clauses_of
from recall.query.plain.json_paths import read_json_path
from recall.query.plain.model import (
    ColumnTypes,
    PlainAggregate,
    PlainType,
    SqlDialect,
    TypedExpression,
    Window,
)
from recall.query.sql_names import EXTRA

# From narrow to wide.
_NUMERIC_TYPES: tuple[PlainType, ...] = ("int", "bigint", "double")
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)

_MAX_QUOTED_SQL_LENGTH = 80  # characters of a query in a message


class ExpressionWriter:
    """Writes the expressions of one SELECT over tables with typed columns.

    `tables`: the columns of each table by its alias as written, in the order of FROM; names of
    columns in lower case. `qualified_tables`: those of them whose columns are only found under
    their alias. `shared_columns`: names of columns that USING makes one, in lower case.
    `constants`: the types and values found so far. If `parameterized`, they are written as columns
    of the table of constants, which is named `constants_alias`. All methods raise `SparkRequired`.
    """

    def __init__(self, dialect: SqlDialect, parameterized: bool) -> None:
        self._dialect = dialect
        self._parameterized = parameterized
        self.tables: dict[str, ColumnTypes] = {}
        self.qualified_tables: set[str] = set()
        self.shared_columns: set[str] = set()
        self.constants: list[tuple[PlainType, Any]] = []
        self.constants_alias = "_c"
        self._group_values: dict[str, TypedExpression] | None = None
        self._window: Window | None = None

    def add_table(self, alias: str, columns: ColumnTypes) -> None:
        """Add the next table of FROM."""
        self.tables[alias] = {name.lower(): column_type for name, column_type in columns.items()}

    def enter_groups(self, values_by_text: dict[str, TypedExpression], window: Window) -> None:
        """Write expressions over groups by a window from now on.

        `values_by_text`: what these may name. Keys by their SQL as written, aggregates by their
        `normalized_text`.
        """
        self._group_values = values_by_text
        self._window = window

    @property
    def is_grouped(self) -> bool:
        """Whether expressions are written over groups."""
        return self._group_values is not None

    def write(self, node: exp.Expr) -> TypedExpression:
        """An expression of any type."""
        if isinstance(node, exp.Paren):
            inner = self.write(node.this)
            if inner.literal is not None:
                return inner
            return replace(inner, sql=f"({inner.sql})")
        if self._group_values is not None:
            group_value = self._write_in_group(node, self._group_values)
            if group_value is not None:
                return group_value
        if isinstance(node, exp.Column):
            return self._write_column(node)
        if isinstance(node, exp.Literal):
            return _parse_literal(node, "")
        if isinstance(node, exp.Neg):
            return self._write_negation(node)
        if isinstance(node, exp.Boolean):
            return TypedExpression("true" if node.this else "false", "boolean")
        if isinstance(node, exp.Null):
            return TypedExpression("NULL", "null")
        if isinstance(node, exp.Case):
            return self._write_case(node)
        if isinstance(node, exp.JSONExtractScalar):
            return self._write_json_text(node)
        if type(node) in _ARITHMETIC:
            return self._write_arithmetic(node, _ARITHMETIC[type(node)])
        return TypedExpression(self._write_predicate(node), "boolean")

    def write_condition(self, node: exp.Expr, allow_null: bool = False) -> str:
        """An expression of type boolean; with `allow_null` also one whose type is that of NULL."""
        value = self.write(node)
        if value.type != "boolean" and not (allow_null and value.type == "null"):
            raise SparkRequired("condition that is not boolean")
        return value.sql

    def resolve_column(self, name: str, table: str = "") -> TypedExpression:
        """A column of a table by its alias; without alias, of the only table that has it."""
        column = name.lower()
        aliases = self.matching_aliases(table)
        if not aliases:
            raise SparkRequired("column of another table")
        owners = [alias for alias in aliases if column in self.tables[alias]]
        if not owners:
            raise SparkRequired(f"column {name} of an unsupported type")
        if len(owners) > 1 and column not in self.shared_columns:
            raise SparkRequired(f"ambiguous column {name}")
        sql = f"{self._dialect.quote(owners[0])}.{self._dialect.quote(column)}"
        return TypedExpression(sql, self.tables[owners[0]][column])

    def matching_aliases(self, table: str) -> list[str]:
        """The aliases that a qualifier names, in any case.

        Without qualifier: all but `qualified_tables`.
        """
        if not table:
            return [alias for alias in self.tables if alias not in self.qualified_tables]
        return [alias for alias in self.tables if alias.lower() == table.lower()]

    def _write_column(self, node: exp.Column) -> TypedExpression:
        if node.db:
            raise SparkRequired("column of another table")
        return self.resolve_column(node.name, node.table)

    def _write_in_group(
        self, node: exp.Expr, group_values: dict[str, TypedExpression]
    ) -> TypedExpression | None:
        """A key, an aggregate or a bound of the window; None for other expressions."""
        if isinstance(node, AGGREGATES):
            return group_values[normalized_text(node)]
        if not isinstance(node, exp.Column):
            return None
        if node.table.lower() == "window" and not self.matching_aliases("window"):
            return self._write_window_bound(node.name.lower())
        key = group_values.get(self._write_column(node).sql)
        if key is None:
            raise SparkRequired("column that is not in GROUP BY")
        return key

    def _write_window_bound(self, side: str) -> TypedExpression:
        assert self._window is not None
        if side not in ("start", "end"):
            raise SparkRequired(f"window.{side}")
        bound = self._dialect.window_bound("_g._w", side, self._window)
        return TypedExpression(bound, "timestamp")

    # Predicates

    def _write_predicate(self, node: exp.Expr) -> str:
        if isinstance(node, exp.And | exp.Or):
            operator = "AND" if isinstance(node, exp.And) else "OR"
            left_sql = self.write_condition(node.left)
            right_sql = self.write_condition(node.right)
            return f"({left_sql} {operator} {right_sql})"
        if isinstance(node, exp.Not):
            return f"(NOT {self.write_condition(node.this)})"
        if type(node) in COMPARISONS:
            return self._write_comparison(node.this, COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            above = self._write_comparison(node.this, ">=", node.args["low"])
            below = self._write_comparison(node.this, "<=", node.args["high"])
            return f"({above} AND {below})"
        if isinstance(node, exp.In) and clauses_of(node) == {"this", "expressions"}:
            equalities = []
            for element in node.expressions:
                equalities.append(self._write_comparison(node.this, "=", element))
            return f"({' OR '.join(equalities)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            value = self.write(node.this)
            return f"({self.cast_to(value, value.type)} IS NULL)"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
            truth = "TRUE" if node.expression.this else "FALSE"
            return f"({self.write_condition(node.this, allow_null=True)} IS {truth})"
        if isinstance(node, exp.Like) and clauses_of(node) == {"this", "expression"}:
            return self._write_like(node)
        sql = node.sql(dialect="spark")
        raise SparkRequired(f"unsupported expression {sql[:_MAX_QUOTED_SQL_LENGTH]}")

    def _write_comparison(self, left_node: exp.Expr, operator: str, right_node: exp.Expr) -> str:
        left_value = self.write(left_node)
        right_value = self.write(right_node)
        common_type = _common_type([left_value, right_value])
        left_sql = self.cast_to(left_value, common_type)
        right_sql = self.cast_to(right_value, common_type)
        return f"({left_sql} {operator} {right_sql})"

    def _write_like(self, node: exp.Like) -> str:
        value = self.write(node.this)
        pattern = node.expression
        is_text = isinstance(pattern, exp.Literal) and pattern.is_string
        if not is_text or value.type != "string":
            raise SparkRequired(
                "LIKE of a non-string value, or with a pattern that is not constant"
            )
        if "\\" in pattern.name:
            raise SparkRequired("LIKE with escapes")
        value_sql = self.cast_to(value, "string")
        return f"({value_sql} LIKE {self.cast_to(self.write(pattern), 'string')})"

    def _write_case(self, node: exp.Case) -> TypedExpression:
        if node.this is not None:
            raise SparkRequired("CASE with a value to compare")
        conditions: list[str] = []
        values: list[TypedExpression] = []
        for branch in node.args["ifs"]:
            conditions.append(self.write_condition(branch.this))
            values.append(self.write(branch.args["true"]))
        default = node.args.get("default")
        values.append(TypedExpression("NULL", "null") if default is None else self.write(default))
        common_type = _common_type(values)
        if common_type in ("decimal", "null"):
            raise SparkRequired("CASE with decimal or untyped values")
        *branch_values, default_sql = [self.cast_to(value, common_type) for value in values]
        branches = ""
        for condition, value_sql in zip(conditions, branch_values, strict=True):
            branches += f" WHEN {condition} THEN {value_sql}"
        return TypedExpression(f"(CASE{branches} ELSE {default_sql} END)", common_type)

    def _write_json_text(self, node: exp.JSONExtractScalar) -> TypedExpression:
        """`get_json_object(_extra, path)`. Other texts may be no JSON, or have a field twice."""
        column = node.this
        if not isinstance(column, exp.Column) or column.name.lower() != EXTRA:
            raise SparkRequired(f"get_json_object of a column other than {EXTRA}")
        keys = read_json_path(node.expression)
        if keys is None:
            raise SparkRequired("path of get_json_object other than fields and positions")
        return TypedExpression(self._dialect.json_text(self.write(column).sql, keys), "string")

    # Numbers

    def _write_negation(self, node: exp.Neg) -> TypedExpression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _parse_literal(node.this, "-")
        number = self._write_number(node.this)
        return TypedExpression(f"(-{self.cast_to(number, number.type)})", number.type)

    def _write_arithmetic(self, node: exp.Expr, operator: str) -> TypedExpression:
        left_value = self._write_number(node.this)
        right_value = self._write_number(node.expression)
        result_type = _common_type([left_value, right_value])
        if result_type == "decimal":
            raise SparkRequired("arithmetic with decimal constants")
        if result_type == "float" and (operator == "/" or left_value.type != right_value.type):
            # Spark computes it as double.
            raise SparkRequired("arithmetic of a float and a constant, or division of floats")
        if operator == "/":
            result_type = "double"
        elif operator == "%" and result_type in ("float", "double"):
            raise SparkRequired("remainder of a non-integer")
        left_sql = self.cast_to(left_value, result_type)
        right_sql = self.cast_to(right_value, result_type)
        if operator in "/%":
            # Spark raises an error on division by zero.
            if right_value.literal is None:
                raise SparkRequired("divisor that may be zero")
            if float(right_value.literal) == 0:
                raise SparkRequired("divisor of zero")
        return TypedExpression(f"({left_sql} {operator} {right_sql})", result_type)

    def _write_number(self, node: exp.Expr) -> TypedExpression:
        value = self.write(node)
        if value.type not in (*_NUMERIC_TYPES, "float", "decimal"):
            raise SparkRequired("arithmetic on a non-numeric value")
        return value

    # Aggregates

    def write_aggregate(self, node: exp.Expr) -> PlainAggregate:
        """One of `AGGREGATES`, over rows."""
        if clauses_of(node) - {"this", "big_int"}:
            raise SparkRequired("aggregate with further arguments")
        if isinstance(node, exp.Count):
            return self._write_count(node.this)
        operand = self.write(node.this)
        if operand.literal is not None or operand.type == "decimal":
            raise SparkRequired("aggregate of a constant")
        if isinstance(node, exp.Min | exp.Max):
            value = TypedExpression(f"{node.key}({operand.sql})", operand.type)
            return PlainAggregate(node.key, operand.sql, value)
        if operand.type not in _NUMERIC_TYPES:
            raise SparkRequired("sum or average of a non-numeric value")
        if isinstance(node, exp.Avg):
            number = self.cast_to(operand, "double")
            return PlainAggregate("avg", number, TypedExpression(f"avg({number})", "double"))
        sum_type: PlainType = "bigint"
        if operand.type == "double":
            sum_type = "double"
        sum_sql = f"CAST(sum({operand.sql}) AS {sum_type.upper()})"
        return PlainAggregate("sum", operand.sql, TypedExpression(sum_sql, sum_type))

    def _write_count(self, argument: exp.Expr) -> PlainAggregate:
        if isinstance(argument, exp.Star):
            return PlainAggregate("count", "*", TypedExpression("count(*)", "bigint"))
        if isinstance(argument, exp.Distinct):
            return self._write_distinct_count(argument)
        operand = self.write(argument)
        if operand.literal is not None:
            raise SparkRequired("aggregate of a constant")
        value = TypedExpression(f"count({operand.sql})", "bigint")
        return PlainAggregate("count", operand.sql, value)

    def _write_distinct_count(self, distinct: exp.Distinct) -> PlainAggregate:
        if len(distinct.expressions) != 1:
            raise SparkRequired("DISTINCT of several columns")
        operand = self.write(distinct.expressions[0])
        if operand.literal is not None or operand.type == "double":
            raise SparkRequired("DISTINCT of a constant or a floating-point number")
        value = TypedExpression(f"count(DISTINCT {operand.sql})", "bigint")
        return PlainAggregate("count_distinct", operand.sql, value)

    # Constants

    def cast_to(self, value: TypedExpression, target_type: PlainType) -> str:
        """A value as one of another type. A constant is added to `constants` if parameterized."""
        if value.literal is None:
            # Decimals are compared with integers, whatever their number of digits.
            if target_type in (value.type, "decimal"):
                return value.sql
            return f"CAST({value.sql} AS {target_type.upper()})"
        if self._parameterized and target_type == "decimal":
            raise SparkRequired("comparison of integers with a decimal constant")
        if self._parameterized:
            self.constants.append((target_type, _python_value(value.literal, target_type)))
            return f"{self.constants_alias}.p{len(self.constants) - 1}"
        if target_type == "string":
            return self._dialect.string(value.literal)
        if target_type == "decimal":
            return value.literal
        if target_type == "double":
            return f"CAST('{value.literal}' AS DOUBLE)"
        return f"CAST({value.literal} AS {target_type.upper()})"


def literal_type(node: exp.Literal, sign: str) -> PlainType:
    """The type of a constant; `sign`: before its text. Raises `SparkRequired`."""
    if node.is_string:
        return "string"
    if not node.is_int:
        return "double" if "e" in node.this.lower() else "decimal"
    number = int(sign + node.this)
    if -(1 << 31) <= number < 1 << 31:
        return "int"
    if -(1 << 63) <= number < 1 << 63:
        return "bigint"
    raise SparkRequired("integer out of range for bigint")


def _parse_literal(node: exp.Literal, sign: str) -> TypedExpression:
    text = sign + node.this
    if node.is_string and "\0" in text:
        raise SparkRequired("string with the character NUL")
    return TypedExpression("", literal_type(node, sign), text)


def _python_value(text: str, constant_type: PlainType) -> int | float | str:
    if constant_type in ("int", "bigint"):
        return int(text)
    if constant_type == "double":
        return float(text)
    return text


def _common_type(values: Sequence[TypedExpression]) -> PlainType:
    """The type in which values are compared or computed; "null" if all of them are NULL."""
    types = {value.type for value in values} - {"null"}
    if not types:
        return "null"
    if len(types) == 1:
        return types.pop()
    if types <= {"int", "bigint", "decimal"} and "decimal" in types:
        return "decimal"
    if types <= {*_NUMERIC_TYPES, "decimal"} and ("double" in types or "decimal" not in types):
        return max(types - {"decimal"}, key=_NUMERIC_TYPES.index)
    if types == {"float", "double"}:
        return "double"
    # Spark compares a float with other numbers as double, DuckDB as float.
    if "float" in types and all(value.type == "float" or _is_float(value) for value in values):
        return "float"
    raise SparkRequired("operation on values of different types")


def _is_float(value: TypedExpression) -> bool:
    """Whether a value is NULL or a numeric constant that a float holds exactly."""
    if value.type == "null":
        return True
    if value.literal is None or value.type not in ("int", "bigint", "decimal"):
        return False
    try:
        (as_float,) = struct.unpack("f", struct.pack("f", float(value.literal)))
    except OverflowError:
        return False
    return Decimal(as_float) == Decimal(value.literal)


def normalized_text(node: exp.Expr) -> str:
    """A text that is equal for equal aggregates."""
    return node.sql(dialect="spark", normalize_functions="lower")
