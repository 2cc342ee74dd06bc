"""Shared by the processes of a workspace: database, roles, supervisor, logging, storage."""

from moirae.runtime import logs
from moirae.runtime.database import connect_database, open_database_pool, release_database
from moirae.runtime.disk_space import (
    DISK_RESERVE,
    DiskSpace,
    measure_disk_space,
)
from moirae.runtime.embedded_database import release_embedded_database
from moirae.runtime.landing_folder import LandedBatch, LandingFolder
from moirae.runtime.metrics import merge_metrics
from moirae.runtime.progress import open_progress_bar
from moirae.runtime.roles import ReconnectingRole, Role, list_processes, record_failure
from moirae.runtime.signals import Signals
from moirae.runtime.storage import check_storage, open_storage
from moirae.runtime.supervisor import run_supervisor, watch_parent

__all__ = [
    "DiskSpace",
    "LandedBatch",
    "LandingFolder",
    "DISK_RESERVE",
    "ReconnectingRole",
    "Role",
    "Signals",
    "check_storage",
    "logs",
    "connect_database",
    "record_failure",
    "list_processes",
    "measure_disk_space",
    "merge_metrics",
    "open_database_pool",
    "open_progress_bar",
    "open_storage",
    "release_database",
    "release_embedded_database",
    "run_supervisor",
    "watch_parent",
]
