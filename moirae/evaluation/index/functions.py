"""Functions of texts, and CASE, compiled. No I/O."""

from typing import Protocol

from sqlglot import exp

from moirae.evaluation.index.patterns import compile_extraction
from moirae.evaluation.index.values import (
    RowTest,
    Value,
    choose_branch,
    concatenate,
    constant_value,
    cut,
    find_position,
    first_present,
    map_value,
    measure_length,
    replace_text,
)
from recall.errors import SparkRequired
from recall.query import clauses_of

# `null_if_pos_overflow` is about a position, which Spark's function does not have.
_EXTRACTION_CLAUSES = {"this", "expression", "group", "null_if_pos_overflow"}


class ExpressionCompiler(Protocol):
    """Compiles what functions are applied to. Raises `SparkRequired`."""

    def compile_value(self, node: exp.Expr) -> Value:
        """An expression of any type."""

    def compile_test(self, node: exp.Expr) -> RowTest:
        """Whether a condition is true."""


def compile_function(node: exp.Expr, compiler: ExpressionCompiler) -> Value:
    """The value of a function. Raises `SparkRequired`."""
    if isinstance(node, exp.Trim) and clauses_of(node) <= {"this", "position"}:
        value = compiler.compile_value(node.this)
        strip = {"LEADING": _strip_left, "TRAILING": _strip_right}
        return map_value(value, strip.get(str(node.args.get("position")), _strip))
    if isinstance(node, exp.Length) and clauses_of(node) == {"this"}:
        return measure_length(compiler.compile_value(node.this))
    if isinstance(node, exp.Substring) and not clauses_of(node) - {"this", "start", "length"}:
        start = _constant_number(node.args.get("start"), compiler)
        length = node.args.get("length")
        count = None if length is None else _constant_number(length, compiler)
        return cut(compiler.compile_value(node.this), start, count)
    if isinstance(node, exp.Left | exp.Right):
        count = max(0, _constant_number(node.expression, compiler))
        value = compiler.compile_value(node.this)
        if isinstance(node, exp.Left):
            return map_value(value, lambda text: text[:count])
        return map_value(value, lambda text: text[max(0, len(text) - count) :])
    if isinstance(node, exp.Reverse):
        return map_value(compiler.compile_value(node.this), lambda text: text[::-1], is_part=False)
    if isinstance(node, exp.Replace) and clauses_of(node) <= {"this", "expression", "replacement"}:
        replacement = node.args.get("replacement")
        return replace_text(
            compiler.compile_value(node.this),
            constant_text(node.expression, compiler),
            "" if replacement is None else constant_text(replacement, compiler),
        )
    if isinstance(node, exp.RegexpExtract) and not clauses_of(node) - _EXTRACTION_CLAUSES:
        value = compiler.compile_value(node.this)
        if not value.is_exact:
            raise SparkRequired("regexp_extract of lower(…)")
        pattern = constant_text(node.expression, compiler)
        group = _constant_number(node.args.get("group"), compiler)
        return map_value(value, compile_extraction(pattern, group))
    if isinstance(node, exp.StrPosition) and clauses_of(node) == {"this", "substr"}:
        text = constant_text(node.args["substr"], compiler)
        return find_position(compiler.compile_value(node.this), text)
    if isinstance(node, exp.Concat | exp.DPipe):
        if isinstance(node, exp.Concat) and node.args.get("coalesce"):
            raise SparkRequired("concat that leaves out NULL")
        parts = node.expressions if isinstance(node, exp.Concat) else [node.left, node.right]
        return concatenate(list(map(compiler.compile_value, parts)))
    if isinstance(node, exp.Coalesce) and clauses_of(node) == {"this", "expressions"}:
        return first_present(list(map(compiler.compile_value, [node.this, *node.expressions])))
    if isinstance(node, exp.If) and clauses_of(node) == {"this", "true", "false"}:
        return _compile_branches([node], node.args["false"], compiler)
    if isinstance(node, exp.Case) and clauses_of(node) == {"ifs", "default"}:
        return _compile_branches(node.args["ifs"], node.args["default"], compiler)
    raise SparkRequired(f"unsupported expression {node.sql(dialect='spark')[:80]}")


def _compile_branches(
    branches: list[exp.If], default: exp.Expr, compiler: ExpressionCompiler
) -> Value:
    return choose_branch(
        [compiler.compile_test(branch.this) for branch in branches],
        [compiler.compile_value(branch.args["true"]) for branch in branches],
        compiler.compile_value(default),
    )


def _constant_number(node: exp.Expr | None, compiler: ExpressionCompiler) -> int:
    value = constant_value(None, "int") if node is None else compiler.compile_value(node)
    if not value.is_constant or value.type != "int" or value.constant is None:
        raise SparkRequired("part of a text at a place that is not constant")
    return int(value.constant)


def constant_text(node: exp.Expr, compiler: ExpressionCompiler) -> str:
    """A text without columns. Raises `SparkRequired`."""
    value = compiler.compile_value(node)
    if not value.is_constant or value.type != "string":
        raise SparkRequired("function of, or comparison with, a text that is not constant")
    return str(value.constant)


def _strip(text: str) -> str:
    return text.strip(" ")


def _strip_left(text: str) -> str:
    return text.lstrip(" ")


def _strip_right(text: str) -> str:
    return text.rstrip(" ")
