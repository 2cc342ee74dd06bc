"""Fields of records by name or by path: `host.name`, `items[0].id`. No I/O.

A field of the whole name comes first: `host.name` may be a name with a dot. Names inside of others
may have dots, too, where the path leads nowhere otherwise. The fields of a record that is an array
are called by their positions: `[0]`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

Steps = tuple[str | int, ...]

_FIRST_POSITION = re.compile(r"\[[0-9]{1,9}\]")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?[0-9]{1,9})\]")


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""What `find_value` returns for a field that a record does not have; null is a value."""


@lru_cache(maxsize=4096)
def parse_path(field: str) -> Steps:
    """The steps of a path: names, and positions in arrays; only the name itself if it is no path."""
    steps: list[str | int] = []
    position = 0
    first = _FIRST_POSITION.match(field)
    if first is not None:
        steps.append(first[0])
        position = first.end()
    while position < len(field):
        match = _STEP.match(field, position)
        if match is None or (match.start() == 0 and field[0] in ".["):
            return (field,)
        steps.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    return tuple(steps) or (field,)


def is_position(field: str) -> bool:
    """Whether a field is, or is inside of, an element of a record that is an array."""
    return _FIRST_POSITION.match(field) is not None


def name_positions(record: list[Any]) -> dict[str, Any]:
    """The fields of a record that is an array."""
    return {f"[{position}]": value for position, value in enumerate(record)}


def is_path(field: str) -> bool:
    """Whether a field may be inside another one."""
    return len(parse_path(field)) > 1


def find_value(record: Mapping[str, Any], field: str) -> Any:
    """The value of a field of that name or, without it, at that path; else `MISSING`."""
    if field in record:
        return record[field]
    steps = parse_path(field)
    if len(steps) == 1:
        return MISSING
    value = _follow(record, steps)
    if value is MISSING and "." in field:
        joined = _find_joined_steps(record, steps)
        value = MISSING if joined is None else _follow(record, joined)
    return value


def locate(record: Mapping[str, Any], field: str) -> Steps | None:
    """The names and positions that lead to the value of a field, see `find_value`; None: none."""
    if field in record:
        return (field,)
    steps = parse_path(field)
    if len(steps) == 1:
        return None
    if _follow(record, steps) is not MISSING:
        return steps
    return _find_joined_steps(record, steps)


def _follow(value: Any, steps: Steps) -> Any:
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return MISSING
        elif not isinstance(value, Mapping) or step not in value:
            return MISSING
        value = value[step]
    return value


def _find_joined_steps(value: Any, steps: Steps) -> Steps | None:
    """The steps to a value where names have dots, as `app.kubernetes.io/name`: the longest first."""
    if not steps:
        return ()
    first = steps[0]
    if isinstance(first, int):
        if not isinstance(value, list) or not -len(value) <= first < len(value):
            return None
        rest = _find_joined_steps(value[first], steps[1:])
        return None if rest is None else (first, *rest)
    if not isinstance(value, Mapping):
        return None
    names: list[str] = []
    for step in steps:
        if isinstance(step, int):
            break
        names.append(step)
    for count in range(len(names), 0, -1):
        name = ".".join(names[:count])
        if name in value:
            rest = _find_joined_steps(value[name], steps[count:])
            if rest is not None:
                return (name, *rest)
    return None


def find_first(record: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, Any] | None:
    """The first of some fields that is not null in a record, and its value.

    If all are null, the first that it has; None: it has none.
    """
    first_null: tuple[str, Any] | None = None
    for field in fields:
        value = find_value(record, field)
        if value is MISSING:
            continue
        if value is not None:
            return field, value
        first_null = first_null or (field, None)
    return first_null


def replace_value(record: dict[str, Any], field: str, value: Any) -> None:
    """Replace the value of a field that a record has, see `find_value`."""
    located = locate(record, field)
    assert located is not None
    *steps, last = located
    target: Any = record
    for step in steps:
        target = target[step]
    target[last] = value


def without_fields(record: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """A record without some fields that it has. Objects that become empty are left out, too.

    Arrays stay as they are: their elements are known by their positions.
    """
    rest = dict(record)
    for field in fields:
        steps = locate(record, field)
        if steps is not None:
            _remove(rest, steps)
    return rest


def _remove(rest: dict[str, Any], steps: Steps) -> None:
    """Remove the value at a path; objects on the way are copied."""
    parents: list[tuple[dict[str, Any], str]] = []
    current = rest
    for step in steps[:-1]:
        if not isinstance(step, str) or not isinstance(current.get(step), Mapping):
            return
        current[step] = dict(current[step])
        parents.append((current, step))
        current = current[step]
    last = steps[-1]
    if not isinstance(last, str) or last not in current:
        return
    del current[last]
    for parent, step in reversed(parents):
        if parent[step]:
            break
        del parent[step]
