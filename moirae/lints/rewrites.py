"""Equal conditions in plain SQL, also for NULL. No I/O."""

import operator
import re

from sqlglot import exp

_COMPARE = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
}
_META = re.compile(r"[.^$*+?{}\[\]\\|()]")


def rewrite(condition: exp.Expr) -> exp.Expr | None:
    """The condition with plain expressions where there are equal ones; None: there are none."""
    if all(_rewrite_node(node) is node for node in condition.walk()):
        return None  # in most conditions of most rules; to copy them takes longer
    result: exp.Expr = condition.transform(_rewrite_node)
    return result


def _rewrite_node(node: exp.Expr) -> exp.Expr:
    for rule in (_null_tests, _text_tests, _comparisons, _choices):
        changed = rule(node)
        if changed is not None:
            return changed
    return node


def _null_tests(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        (operand,) = node.expressions
        is_null = exp.Is(this=operand.copy(), expression=exp.null())
        if node.name.lower() == "isnull":
            return is_null
        if node.name.lower() == "isnotnull":
            return exp.Not(this=is_null)
    is_safe = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    if is_safe and isinstance(node.expression, exp.Literal):
        is_null = exp.Is(this=node.this.copy(), expression=exp.null())
        if isinstance(node, exp.NullSafeNEQ):
            differs = exp.NEQ(this=node.this.copy(), expression=node.expression.copy())
            return exp.paren(exp.or_(differs, is_null, copy=False))
        equals = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        return exp.paren(exp.and_(equals, exp.Not(this=is_null), copy=False))
    return None


def _text_tests(node: exp.Expr) -> exp.Expr | None:
    """Tests for a beginning, an end or a part as LIKE."""
    if isinstance(node, exp.StartsWith):
        return _like(node.this, "", node.expression, "%")
    if isinstance(node, exp.EndsWith):
        return _like(node.this, "%", node.expression, "")
    if isinstance(node, exp.Contains):
        return _like(node.this, "%", node.expression, "%")
    if isinstance(node, exp.RegexpLike) and isinstance(node.expression, exp.Literal):
        return _rewrite_pattern(node)
    if isinstance(node, exp.GT) and isinstance(node.this, exp.StrPosition):
        is_zero = isinstance(node.expression, exp.Literal) and node.expression.name == "0"
        if is_zero and node.this.args.get("position") is None:
            return _like(node.this.this, "%", node.this.args["substr"], "%")
    return None


def _rewrite_pattern(node: exp.RegexpLike) -> exp.Expr | None:
    if node.args.get("flag") is not None:
        return None
    pattern = node.expression.name
    is_anchored = pattern.startswith("^")
    literal = pattern[1:] if is_anchored else pattern
    if not literal or _META.search(literal):
        return None
    return _like(node.this, "" if is_anchored else "%", exp.Literal.string(literal), "%")


def _comparisons(node: exp.Expr) -> exp.Expr | None:
    """The beginning of a text that is compared; a list that is searched; the size of a number."""
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Literal):
        length = _beginning_length(node.this)
        if length is not None and length == len(node.expression.name) > 0:
            return _like(node.this.this, "", node.expression, "%")
    if isinstance(node, exp.ArrayContains) and isinstance(node.this, exp.Array):
        items = node.this.expressions
        if items and all(isinstance(item, exp.Literal) for item in items):
            return exp.In(this=node.expression.copy(), expressions=[item.copy() for item in items])
    if isinstance(node, exp.GT | exp.GTE) and isinstance(node.this, exp.Abs):
        limit = node.expression
        if isinstance(limit, exp.Literal) and not limit.is_string:
            above = type(node)(this=node.this.this.copy(), expression=limit.copy())
            opposite = exp.LT if isinstance(node, exp.GT) else exp.LTE
            below = opposite(this=node.this.this.copy(), expression=exp.Neg(this=limit.copy()))
            return exp.paren(exp.or_(above, below, copy=False))
    return None


def _beginning_length(node: exp.Expr) -> int | None:
    """How many characters of a text an expression takes from its beginning."""
    if isinstance(node, exp.Left):
        length = node.expression
    elif isinstance(node, exp.Substring) and node.args.get("start") == exp.Literal.number(1):
        length = node.args.get("length")
    else:
        return None
    return int(length.name) if isinstance(length, exp.Literal) and length.is_int else None


def _choices(node: exp.Expr) -> exp.Expr | None:
    """A comparison of a value that replaces NULL; a condition that is chosen by itself."""
    is_comparison = isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE | exp.EQ)
    if not is_comparison or not isinstance(node.this, exp.Coalesce):
        return None
    replaced, constants = node.this.this, node.this.expressions
    numbers = [*constants, node.expression]
    if len(constants) != 1 or not all(_is_number(number) for number in numbers):
        return None
    constant, limit = (float(number.name) for number in numbers)
    holds_for_null = _COMPARE[node.key](constant, limit)
    comparison = type(node)(this=replaced.copy(), expression=node.expression.copy())
    is_null = exp.Is(this=replaced.copy(), expression=exp.null())
    if holds_for_null:
        return exp.paren(exp.or_(comparison, is_null, copy=False))
    return exp.paren(exp.and_(comparison, exp.Not(this=is_null), copy=False))


def _is_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _like(text: exp.Expr, before: str, part: exp.Expr | None, after: str) -> exp.Expr | None:
    """LIKE of a constant part; None if it is none, or has characters that mean something there."""
    if not isinstance(part, exp.Literal) or not part.is_string or re.search(r"[%_\\]", part.name):
        return None
    if not part.name:
        return None
    return exp.Like(this=text.copy(), expression=exp.Literal.string(before + part.name + after))
