"""Paths of `get_json_object` that Spark and DuckDB read alike. No I/O."""

import re

from sqlglot import exp

from recall.query.plain.model import JsonPath

# A field after a dot, a quoted field in brackets, a position in brackets.
_STEP = re.compile(r"""\.([^\s.\[\]'"*?\\]+)|\['([^\s'"*?\\]+)'\]|\[(\d{1,9})\]""")


def read_json_path(node: exp.Expr | None) -> JsonPath | None:
    """The steps of a path in a query; None: see `parse_json_path`.

    The parser has taken apart the paths that it knows.
    """
    if isinstance(node, exp.Literal):
        return parse_json_path(node.name)
    if not isinstance(node, exp.JSONPath):
        return None
    root, *steps = node.expressions
    if not isinstance(root, exp.JSONPathRoot):
        return None
    path = "$"
    for step in steps:
        key = step.args.get("this")
        if isinstance(step, exp.JSONPathKey) and isinstance(key, str):
            path += f"['{key}']"
        elif isinstance(step, exp.JSONPathSubscript) and isinstance(key, int):
            path += f"[{key}]"
        else:
            return None
    return parse_json_path(path)


def parse_json_path(path: str) -> JsonPath | None:
    """The steps of a path such as `$.k8s.labels[0]`; None: it has others, or none."""
    if not path.startswith("$"):
        return None
    keys: list[str | int] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        field, quoted_field, index = step.groups()
        keys.append(int(index) if index is not None else field or quoted_field)
        position = step.end()
    return keys or None


def to_spark_path(keys: JsonPath) -> str:
    """A path that Spark reads."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f"['{key}']" for key in keys)


def to_duckdb_path(keys: JsonPath) -> str:
    """A path that DuckDB reads."""
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f'."{key}"' for key in keys)
