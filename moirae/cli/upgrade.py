"""`moirae upgrade`: bring the data of an earlier version to those of this one."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
)
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import database_dsn, release_database
from moirae.runtime.storage import read_archive_identity

_COLUMNS = ("migration", "what", "kind")
_REWRITTEN_BYTES = 5_000_000  # of a database in a second, on a slow disk
_WAY_BACK = "To go back: restore the backup that was made before, by the version before, into an empty folder."


def upgrade(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be changed.")
    ] = False,
    without_backup: Annotated[
        bool,
        typer.Option("--without-backup", help="Upgrade although there is no verified backup."),
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DEST",
            help="Folder of backups, or s3://BUCKET/PREFIX, whose newest one is verified. Default: "
            "`backup.to` of the workspace file.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", metavar="FILE", help="File of the age key of encrypted backups."
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Upgrade the workspace to this version, while it is stopped. Changes that only add are applied by
    each command; this one also applies those that rewrite data. Interrupted, it changes nothing.
    """
    settings = load_settings_from_environment(workspace)
    try:
        dsn = database_dsn(settings)
        with sql.connect(dsn, application_name="moirae upgrade") as connection:
            try:
                pending = sql.list_pending(connection)
            except sql.SchemaTooNew as error:
                raise MoiraeError(str(error)) from error
            _print_plan(pending, output)
            if pending and output is OutputFormat.TABLE:
                print(_describe_duration(pending, sql.measure_database(connection)))
                print(_WAY_BACK)
            if dry_run or not pending:
                return
            if not without_backup:
                print(_require_backup(settings, source, key_file))
            try:
                sql.migrate(connection, rewrite=True)
            except sql.UpgradeRequired as error:
                raise MoiraeError(str(error)) from error
            print("Upgraded. Run `moirae doctor`, then `moirae up`.")
    finally:
        release_database(settings)


def _describe_duration(pending: Sequence[sql.Migration], size: int) -> str:
    if not any(migration.rewrites for migration in pending):
        return "Takes seconds: nothing that is stored is rewritten."
    seconds = size / _REWRITTEN_BYTES
    duration = "a minute" if seconds < 60 else f"{math.ceil(seconds / 60):,} minutes"
    return f"Takes up to {duration}: the database has {decimal(size)}."


def _print_plan(pending: Sequence[sql.Migration], output: OutputFormat) -> None:
    rows = [
        (
            migration.number,
            migration.name.replace("_", " "),
            "rewrites data" if migration.rewrites else "adds",
        )
        for migration in pending
    ]
    if output is OutputFormat.JSON:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(_COLUMNS, rows, "nothing to upgrade")


def _require_backup(settings: Settings, source: str | None, key_file: Path | None) -> str:
    """A description of the newest backup, which must be verified."""
    from moirae.backup import open_repository, open_scheduled

    if source is not None:
        repository = open_repository(source, key_file)
    elif settings.backup is not None:
        repository = open_scheduled(settings.backup)
    else:
        raise UsageError("no backup is known: name a folder with --from, or give --without-backup")
    identity = read_archive_identity(settings)
    if identity is not None:
        repository.check_workspace(identity[0])
    manifest = repository.get(None)
    if not repository.is_verified(manifest.name):
        raise UsageError(
            f"{repository}: backup {manifest.name} is not verified: run `moirae backup --verify`, or "
            "give --without-backup"
        )
    return (
        f"Verified backup: {manifest.name}, state of {manifest.taken_at:%Y-%m-%d %H:%M:%S}Z; what "
        "came since is not in it"
    )
