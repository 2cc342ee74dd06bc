"""Paths of `get_json_object` that Spark and DuckDB read alike. No I/O."""

import re

from recall.query.plain.model import JsonPath

# A field after a dot, a quoted field in brackets, a position in brackets.
_STEP = re.compile(r"""\.([^\s.\[\]'"*?\\]+)|\['([^\s'"*?\\]+)'\]|\[(\d{1,9})\]""")


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
