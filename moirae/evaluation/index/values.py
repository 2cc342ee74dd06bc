"""Values of SQL expressions over rows, as Spark computes them. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moirae.evaluation.index.anchors import Anchor, Necessary
from moirae.evaluation.index.text_columns import Case, map_text
from recall.errors import SparkRequired
from recall.query.plain import PlainType

Row = Sequence[Any]
"""The values that a layout names, in its order."""

RowTest = Callable[[Row], bool]

NUMBERS: tuple[PlainType, ...] = ("int", "bigint", "double")
_SIGMAS = "\u03c3\u03c2\u03a3"


@dataclass
class RowLayout:
    """Which values the rows of a stream's table consist of: columns, texts in one or more cases.

    Grows with the conditions that are compiled over the table. `types`: of the columns, by name.
    """

    types: Mapping[str, PlainType]
    slots: dict[tuple[str, Case], int] = field(default_factory=dict)

    def slot(self, column: str, case: Case = "raw") -> int:
        """The position of a column, in a case, in each row."""
        return self.slots.setdefault((column, case), len(self.slots))

    def resolve(self, name: str) -> str:
        """A column by its name in any case. Raises `SparkRequired`."""
        for column in self.types:
            if column.lower() == name.lower():
                return column
        raise SparkRequired(f"column {name} of an unsupported type")


@dataclass(frozen=True)
class Value:
    """An expression. `get`: its value in a row.

    `column`: of a text, the column that it is taken from, if folded it is a part of the folded
    column; `is_whole`: all of it. `is_raw`: the text is that column as it is. `is_exact`: False if a
    σ may be a ς to Spark. `constant`: of a constant.
    """

    type: PlainType
    get: Callable[[Row], Any]
    column: str | None = None
    is_whole: bool = False
    is_raw: bool = False
    is_exact: bool = True
    is_constant: bool = False
    constant: Any = None

    def contains(self, text: str) -> Necessary:
        """What is necessary for a text to contain another one."""
        folded = map_text(text, "folded")
        if self.column is None or not folded:
            return None
        return Anchor(self.column, "contains", folded)

    def equals(self, constant: Any) -> Necessary:
        """What is necessary for a value to equal a constant."""
        if self.column is None:
            return None
        if self.type != "string":
            return Anchor(self.column, "number", constant) if self.is_raw else None
        if not self.is_whole:
            return self.contains(constant)
        return Anchor(self.column, "equals", map_text(constant, "folded"))

    def check_sigma(self, text: str) -> None:
        """Raises `SparkRequired` if a comparison with a text depends on the form of a sigma."""
        if not self.is_exact and any(sigma in text for sigma in _SIGMAS):
            raise SparkRequired("comparison of lower(…) with a text that has a sigma")


def constant_value(value: Any, value_type: PlainType) -> Value:
    """A constant."""
    return Value(value_type, lambda row: value, is_constant=True, constant=value)


def column_value(layout: RowLayout, name: str) -> Value:
    """A column. Raises `SparkRequired`."""
    column = layout.resolve(name)
    slot = layout.slot(column)
    column_type = layout.types[column]
    return Value(column_type, lambda row: row[slot], column, is_whole=True, is_raw=True)


def change_case(value: Value, case: Case, layout: RowLayout) -> Value:
    """`lower` or `upper` of a value. Raises `SparkRequired`."""
    _check_text(value)
    if value.is_constant:
        if case == "lower" and "\u03a3" in value.constant:
            raise SparkRequired("lower(…) of a text that has a sigma")
        return constant_value(map_text(value.constant, case), "string")
    is_exact = case == "upper"
    if value.is_raw and value.column is not None:
        slot = layout.slot(value.column, case)
        return Value("string", lambda row: row[slot], value.column, True, is_exact=is_exact)
    get = value.get

    def changed(row: Row) -> str | None:
        text = get(row)
        return None if text is None else map_text(text, case)

    return Value("string", changed, value.column, value.is_whole, is_exact=is_exact)


def map_value(value: Value, function: Callable[[str], str], is_part: bool = True) -> Value:
    """A function of a text. `is_part`: its result is a part of the text. Raises `SparkRequired`."""
    return _derive(value, function, "string", value.column if is_part else None)


def replace_text(value: Value, text: str, replacement: str) -> Value:
    """`replace`. Raises `SparkRequired`."""
    value.check_sigma(text)
    if not text:
        return map_value(value, lambda subject: subject)
    return map_value(value, lambda subject: subject.replace(text, replacement), is_part=False)


def find_position(value: Value, text: str) -> Value:
    """`instr`: from 1 on; 0 if a text does not contain another one. Raises `SparkRequired`."""
    value.check_sigma(text)
    return _derive(value, lambda subject: subject.find(text) + 1, "int", None)


def choose_branch(tests: Sequence[RowTest], values: Sequence[Value], default: Value) -> Value:
    """CASE of values of one type. Raises `SparkRequired`."""
    if any(value.type != default.type for value in values):
        raise SparkRequired("CASE with values of different types")
    branches = list(zip(tests, (value.get for value in values), strict=True))
    get_default = default.get

    def chosen(row: Row) -> Any:
        for test, get in branches:
            if test(row):
                return get(row)
        return get_default(row)

    is_exact = all(value.is_exact for value in (*values, default))
    return Value(default.type, chosen, is_exact=is_exact)


def measure_length(value: Value) -> Value:
    """`length`: in code points. Raises `SparkRequired`."""
    return _derive(value, len, "int", None)


def cut(value: Value, position: int, length: int | None) -> Value:
    """`substring`; positions count from 1, negative ones from the end. Raises `SparkRequired`."""

    def part_of(text: str) -> str:
        start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
        end = len(text) if length is None else start + length
        return text[max(start, 0) : max(end, 0)]

    return _derive(value, part_of, "string", value.column)


def concatenate(values: Sequence[Value]) -> Value:
    """`concat`: NULL if any value is. Raises `SparkRequired`."""
    for value in values:
        _check_text(value)
    getters = [value.get for value in values]

    def joined(row: Row) -> str | None:
        texts = [get(row) for get in getters]
        return None if None in texts else "".join(texts)

    return Value("string", joined, is_exact=all(value.is_exact for value in values))


def first_present(values: Sequence[Value]) -> Value:
    """`coalesce`, of values of one type. Raises `SparkRequired`."""
    if len({value.type for value in values}) != 1:
        raise SparkRequired("coalesce of different types")
    getters = [value.get for value in values]

    def present(row: Row) -> Any:
        for get in getters:
            value = get(row)
            if value is not None:
                return value
        return None

    return Value(values[0].type, present, is_exact=all(value.is_exact for value in values))


def _derive(
    value: Value, function: Callable[[str], Any], result_type: PlainType, column: str | None
) -> Value:
    _check_text(value)
    get = value.get

    def derived(row: Row) -> Any:
        text = get(row)
        return None if text is None else function(text)

    return Value(result_type, derived, column, is_exact=value.is_exact or result_type == "int")


def _check_text(value: Value) -> None:
    if value.type != "string":
        raise SparkRequired("function of a text over a value that is none")
