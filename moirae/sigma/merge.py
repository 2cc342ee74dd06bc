"""Three-way merge of a rule: as imported last, as it is in the rule file, as it is now. No I/O."""

from collections.abc import Mapping
from typing import Any, NamedTuple

KeyPath = tuple[str, ...]

_NESTED = ("labels", "annotations")  # whose keys are merged one by one
_ABSENT = object()


class MergeResult(NamedTuple):
    """`changes`: keys to set in the rule file, None to delete; `conflicts`: keys that stay."""

    changes: dict[KeyPath, Any]
    conflicts: list[KeyPath]


def merge_rule(
    base: Mapping[str, Any], local: Mapping[str, Any], incoming: Mapping[str, Any]
) -> MergeResult:
    """Merge by key.

    A key that only one side changed has that side's value. One that both changed differently stays
    as it is in the rule file. Without a base, local keys that differ are conflicts.
    """
    base_values, local_values, new_values = map(_flatten, (base, local, incoming))
    changes: dict[KeyPath, Any] = {}
    conflicts: list[KeyPath] = []
    for path in {**base_values, **new_values}:
        before = base_values.get(path, _ABSENT)
        current = local_values.get(path, _ABSENT)
        after = new_values.get(path, _ABSENT)
        if after in (before, current):
            continue
        if current == before:
            changes[path] = None if after is _ABSENT else after
        else:
            conflicts.append(path)
    return MergeResult(changes, conflicts)


def _flatten(values: Mapping[str, Any]) -> dict[KeyPath, Any]:
    flat: dict[KeyPath, Any] = {}
    for name, value in values.items():
        if name in _NESTED and isinstance(value, Mapping):
            for inner_name, inner_value in value.items():
                flat[name, inner_name] = inner_value
        else:
            flat[name,] = value
    return flat
