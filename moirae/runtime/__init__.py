"""Shared by the processes of a workspace: database, roles, supervisor, logging.

Where a workspace stores data has a front door of its own, `moirae.runtime.storage`.
"""

from moirae.runtime import logs
from moirae.runtime.backup_state import BackupState, read_backup_state
from moirae.runtime.database import (
    connect_database,
    database_dsn,
    is_database_running,
    open_database_pool,
    release_database,
)
from moirae.runtime.embedded_database import release_embedded_database
from moirae.runtime.leases import keep_lease, machine_name
from moirae.runtime.locales import replace_missing_locale
from moirae.runtime.metrics import merge_metrics
from moirae.runtime.progress import open_progress_bar
from moirae.runtime.relation_declarations import check_relations, update_relations
from moirae.runtime.roles import (
    ReconnectingRole,
    Role,
    Standby,
    describe_error,
    list_processes,
    list_waiting_processes,
    record_failure,
)
from moirae.runtime.shared_values import accept_shared_values, check_shared_values
from moirae.runtime.signals import Signals
from moirae.runtime.standard_streams import (
    keep_exit_code,
    prepare_stdout,
    replace_unencodable,
    tolerate_closed_stderr,
    write_json,
)
from moirae.runtime.supervisor import run_supervisor, watch_parent

__all__ = [
    "BackupState",
    "ReconnectingRole",
    "Role",
    "Signals",
    "Standby",
    "logs",
    "accept_shared_values",
    "check_relations",
    "check_shared_values",
    "connect_database",
    "database_dsn",
    "describe_error",
    "is_database_running",
    "record_failure",
    "keep_lease",
    "list_processes",
    "list_waiting_processes",
    "machine_name",
    "merge_metrics",
    "read_backup_state",
    "open_database_pool",
    "open_progress_bar",
    "release_database",
    "release_embedded_database",
    "keep_exit_code",
    "prepare_stdout",
    "replace_missing_locale",
    "replace_unencodable",
    "run_supervisor",
    "tolerate_closed_stderr",
    "update_relations",
    "watch_parent",
    "write_json",
]
