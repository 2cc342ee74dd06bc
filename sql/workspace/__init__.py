"""The workspace as a whole: its identity, its backups, snapshots of the database."""

from sql.workspace.backups import BackupGateway, BackupRow
from sql.workspace.identity import WorkspaceGateway, WorkspaceRow
from sql.workspace.locations import split_password
from sql.workspace.purge import remove_log, rewrite_tables
from sql.workspace.snapshots import DatabaseSnapshot, read_snapshot

__all__ = [
    "BackupGateway",
    "BackupRow",
    "DatabaseSnapshot",
    "WorkspaceGateway",
    "WorkspaceRow",
    "read_snapshot",
    "remove_log",
    "rewrite_tables",
    "split_password",
]
