"""Backups of a workspace, and restoring them.

A backup is one state of database, archive and accepted batches, taken while all processes run
(`state`). It is complete when its manifest is written, the last file. Data files are never changed,
so that a folder of backups holds each once.
"""

from moirae.backup.creation import FILES_PART, BackupOptions
from moirae.backup.destination import open_repository, open_scheduled
from moirae.backup.encryption import create_key_file
from moirae.backup.erased_list import store_list
from moirae.backup.manifest import FileEntry, Manifest
from moirae.backup.repository import Repository
from moirae.backup.restoration import Restoration, RestoredFiles
from moirae.backup.runs import back_up, hold_backup_lock, lower_priority, run_backups
from moirae.backup.verification import Verification, verify_backup
from moirae.backup.workspace_files import LOG_FOLDER, read_tar

__all__ = [
    "BackupOptions",
    "FILES_PART",
    "FileEntry",
    "LOG_FOLDER",
    "Manifest",
    "Repository",
    "Restoration",
    "RestoredFiles",
    "Verification",
    "back_up",
    "create_key_file",
    "hold_backup_lock",
    "lower_priority",
    "open_repository",
    "open_scheduled",
    "read_tar",
    "run_backups",
    "store_list",
    "verify_backup",
]
