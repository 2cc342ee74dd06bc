"""Finds the operations of all modules."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from moirae.services.operation import Operation

_MODULES = (
    "alerts",
    "archive",
    "backtests",
    "dashboards",
    "drafts",
    "events",
    "fixes",
    "incidents",
    "lost_records",
    "network",
    "notifications",
    "overview",
    "queries",
    "recalls",
    "recent_changes",
    "relations",
    "rules",
    "set_aside",
    "silences",
    "stream_records",
    "similarity",
    "system",
)


@cache
def load_operations() -> Mapping[str, Operation[..., Any]]:
    """All operations by name."""
    operations: dict[str, Operation[..., Any]] = {}
    for name in _MODULES:
        module = import_module(f"moirae.services.operations.{name}")
        for value in vars(module).values():
            if isinstance(value, Operation):
                operations[value.name] = value
    return operations
