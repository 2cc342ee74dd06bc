"""What the processes of a workspace share: database, roles, supervisor, logging, storage."""

from moirae.runtime.database import connect_database
from moirae.runtime.landing_folder import LandedBatch, LandingFolder
from moirae.runtime.logs import configure_logging
from moirae.runtime.roles import ReconnectingRole, Role, list_processes
from moirae.runtime.storage import check_storage, open_storage
from moirae.runtime.supervisor import run_supervisor, watch_parent

__all__ = [
    "LandedBatch",
    "LandingFolder",
    "ReconnectingRole",
    "Role",
    "check_storage",
    "configure_logging",
    "connect_database",
    "list_processes",
    "open_storage",
    "run_supervisor",
    "watch_parent",
]
