"""One service layer under the command line and the HTTP API: operations on a workspace.

The operations are in `moirae.services.operations`, by subject. Names are loaded when they are used,
so that a command waits only for the libraries that it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moirae.services import action_links, alertmanager, callbacks, problems, tokens
    from moirae.services.child import run_in_child
    from moirae.services.load import load_operations
    from moirae.services.models import MAX_PAGE_ROWS, shaped_text
    from moirae.services.operation import Operation, Role
    from moirae.services.remote import (
        API_PREFIX,
        RemoteWorkspace,
        ServerAddress,
        open_server,
        read_server_address,
    )
    from moirae.services.workspace import LocalWorkspace, Workspace, to_json

__all__ = [
    "API_PREFIX",
    "LocalWorkspace",
    "MAX_PAGE_ROWS",
    "Operation",
    "RemoteWorkspace",
    "Role",
    "ServerAddress",
    "Workspace",
    "action_links",
    "alertmanager",
    "callbacks",
    "load_operations",
    "open_server",
    "problems",
    "read_server_address",
    "run_in_child",
    "shaped_text",
    "to_json",
    "tokens",
]

_MODULES = {
    "child": ("run_in_child",),
    "load": ("load_operations",),
    "models": ("MAX_PAGE_ROWS", "shaped_text"),
    "operation": ("Operation", "Role"),
    "remote": (
        "API_PREFIX",
        "RemoteWorkspace",
        "ServerAddress",
        "open_server",
        "read_server_address",
    ),
    "workspace": ("LocalWorkspace", "Workspace", "to_json"),
}


def __getattr__(name: str) -> Any:
    """Load a name of `__all__` from its module (PEP 562)."""
    if name in ("action_links", "alertmanager", "callbacks", "problems", "tokens"):
        return import_module(f"{__name__}.{name}")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
