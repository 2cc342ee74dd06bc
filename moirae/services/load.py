"""Loads the modules of all operations."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from moirae.services.operation import REGISTRY, Operation

_MODULES = (
    "alerts",
    "archive",
    "dashboards",
    "events",
    "exports",
    "overview",
    "recalls",
    "rules",
    "similarity",
    "system",
)


def load_operations() -> "Mapping[str, Operation[..., Any]]":
    """All operations by name."""
    for module in _MODULES:
        import_module(f"moirae.services.operations.{module}")
    return REGISTRY
