"""`moirae backup` and `moirae restore`: make, verify, list and restore backups."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from typer.core import TyperGroup

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    print_json,
    print_table,
)
from moirae.config import FILE_NAME, Settings, load_settings_from_environment
from moirae.errors import BackupDamaged, UsageError
from moirae.runtime import keep_exit_code, open_progress_bar

if TYPE_CHECKING:
    from moirae.backup import Manifest, Repository, Verification

_DEFAULT_COMMAND = "create"
_COLUMNS = ("backup", "state of", "rows", "files", "size", "copied", "generation")


class _BackupGroup(TyperGroup):
    """The commands of backups. Without one of their names, a backup is created."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_help = bool(args) and args[0] in ("-h", "--help")
        if not is_help and (not args or args[0] not in self.commands):
            args = [_DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BackupGroup,
    help="Make, verify and list backups. `moirae backup DEST` is `moirae backup create DEST`.",
)

DestinationArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DEST",
        help="Folder of the backups, or s3://BUCKET/PREFIX. Default: `backup.to` of the workspace "
        "file.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="File of the age key by which backups are encrypted. Default: `backup.key_file` of the "
        "workspace file, or else the key in the environment variable MOIRAE_BACKUP_KEY; without "
        "any, they are not encrypted.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option("--backup", metavar="NAME", help="Name of the backup. Default: the newest one."),
]


@dataclass(frozen=True)
class _CreateOptions:
    """Options of a new backup."""

    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="NAME",
            help="Require that this backup, or LAST for any, is complete in DEST: only what is new "
            "since is copied. Without it, what any backup in DEST has is not copied again.",
        ),
    ] = None
    without_database: Annotated[
        bool,
        typer.Option(
            "--without-database",
            help="Leave out the database: an external PostgreSQL is backed up by its own tools.",
        ),
    ] = False


@dataclass(frozen=True)
class _VerifyOptions:
    """Options of a verification."""

    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Make no backup: restore the newest one beside, compare, and remove it.",
        ),
    ] = False
    name: NameOption = None


@app.command(_DEFAULT_COMMAND)
@expand_option_groups
def create(
    creation: _CreateOptions,
    verification: _VerifyOptions,
    destination: DestinationArgument = None,
    key_file: KeyFileOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Back up the workspace while its processes run, or verify a backup. Exit code 1 if the backup
    is not what was backed up.
    """
    if verification.verify:
        if creation != _CreateOptions():
            raise UsageError("--verify makes no backup: omit --since and --without-database")
        _verify(_open(destination, key_file, workspace), verification.name, output)
        return
    if verification.name is not None:
        raise UsageError("--backup NAME names a backup to --verify; a new one gets its own name")
    settings = load_settings_from_environment(workspace)
    _create(settings, _open(destination, key_file, workspace), creation, output)


def _create(
    settings: Settings,
    repository: "Repository",
    creation: _CreateOptions,
    output: OutputFormat,
) -> None:
    from moirae.backup import BackupOptions, back_up, lower_priority

    if creation.without_database and settings.database is None:
        raise UsageError("--without-database: the embedded database has no other backup: omit it")
    lower_priority()
    since = creation.since
    if since == "LAST":
        since = repository.get(None).name
    with _report_progress("backing up") as report:
        options = BackupOptions(since, not creation.without_database, report)
        manifest = back_up(settings, repository, options)
    if output is OutputFormat.JSON:
        print_json(manifest.to_summary())
        return
    print(
        f"backup {manifest.name}: {manifest.rows:,} rows, {manifest.file_count:,} files, "
        f"{decimal(manifest.bytes)}, of which {decimal(manifest.new_bytes)} were copied"
    )


def _verify(repository: "Repository", name: str | None, output: OutputFormat) -> None:
    from moirae.backup import verify_backup

    manifest = repository.get(name)
    if name is None:
        _warn_of_incomplete(repository, manifest.name)
    with (
        tempfile.TemporaryDirectory(prefix="moirae-verify-") as folder,
        _report_progress("restoring beside") as report,
    ):
        try:
            verification = verify_backup(repository, manifest, Path(folder), report)
        except BackupDamaged:
            repository.mark_verified(manifest.name, is_good=False)
            raise
    exit_code = 0 if verification.is_good else 1
    repository.mark_verified(manifest.name, verification.is_good)
    keep_exit_code(exit_code)
    _print_verification(verification, output)
    raise typer.Exit(exit_code)


def _print_verification(verification: "Verification", output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        findings = list(map(vars, verification.findings))
        print_json({**vars(verification), "findings": findings, "good": verification.is_good})
        return
    for finding in verification.findings:
        for problem in finding.problems:
            print(f"FAIL: {finding.check}: {problem}")
    result = "is what was backed up" if verification.is_good else "DIFFERS"
    print(
        f"backup {verification.backup} {result}: {verification.files:,} files "
        f"({decimal(verification.bytes)}) by SHA-256, {verification.rows:,} rows by identity, "
        f"{len(verification.findings)} checks of `moirae doctor`"
    )


@app.command("list")
def list_(
    destination: DestinationArgument = None,
    key_file: KeyFileOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the complete backups in a folder, oldest first. Exit code 1 if one is damaged."""
    repository = _open(destination, key_file, workspace)
    survey = repository.survey()
    if output is OutputFormat.JSON:
        print_json([manifest.to_summary() for manifest in survey.complete])
    else:
        print_table(_COLUMNS, map(_format_manifest, survey.complete), "no complete backups")
    _warn_of_incomplete(repository)
    if survey.damaged:
        raise BackupDamaged(survey.describe_damage())


def _format_manifest(manifest: "Manifest") -> tuple[Any, ...]:
    return (
        manifest.name,
        manifest.taken_at,
        manifest.rows,
        manifest.file_count,
        decimal(manifest.bytes),
        decimal(manifest.new_bytes),
        manifest.generation,
    )


@app.command("new-key")
def new_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create.")],
) -> None:
    """Create a key by which backups are encrypted. Keep a copy elsewhere: without it, encrypted
    backups cannot be restored.
    """
    from moirae.backup import create_key_file

    recipient = create_key_file(file)
    print(f"{file}: new key; its public key is {recipient}")


def restore(
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="Folder of the backups, or s3://BUCKET/PREFIX.")
    ],
    name: NameOption = None,
    files_only: Annotated[
        bool,
        typer.Option(
            "--files-only",
            help="Restore only the workspace file, rule files and files of relations, as to change "
            "`home`, `archive` or `database` before the rest is restored.",
        ),
    ] = False,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="File of the age key by which the backup is encrypted. Default: the key in the "
            "environment variable MOIRAE_BACKUP_KEY.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Restore a backup into an empty workspace. Files of the workspace that exist are not replaced.

    An interrupted restore continues when it is run again.
    """
    from moirae.backup import Restoration, open_repository

    repository = open_repository(destination, key_file)
    manifest = repository.get(name)
    if name is None:
        _warn_of_incomplete(repository, manifest.name)
    file = workspace / FILE_NAME if workspace.is_dir() else workspace
    with _report_progress("restoring") as report:
        restoration = Restoration(repository, manifest, report)
        files = restoration.restore_workspace_files(file.absolute().parent)
        restored_file = files.workspace_file
        if restored_file != file.absolute() and restored_file in files.written:
            restored_file.rename(file)
        generation = None
        erased = 0
        if not files_only:
            settings = load_settings_from_environment(file)
            restoration.check_empty(settings)
            generation = restoration.restore(settings)
            erased = _erase_again(settings)
    if output is OutputFormat.JSON:
        print_json(
            {
                **manifest.to_summary(),
                "generation": generation,
                "erased": erased,
                "written": list(map(str, files.written)),
                "present": list(map(str, files.present)),
            }
        )
        return
    for path in files.present:
        print(f"{path}: exists, not replaced")
    if erased:
        print(f"{erased:,} erasures since the backup were applied again")
    if generation is None:
        print(f"files of backup {manifest.name} restored: run `moirae restore` again for the rest")
        return
    print(
        f"backup {manifest.name} restored, as generation {generation}: {manifest.rows:,} rows, "
        f"{manifest.file_count:,} files, {decimal(manifest.bytes)}; state of "
        f"{manifest.taken_at:%Y-%m-%d %H:%M:%S}Z"
    )
    print(
        "If the workspace that was backed up still runs with a database and an archive of its own, "
        "stop it: it cannot notice that it was replaced.",
        file=sys.stderr,
    )


def _erase_again(settings: Settings) -> int:
    """Erase from the restored workspace what was erased since the backup; count the erasures."""
    from moirae.erasure import Eraser
    from moirae.runtime import connect_database

    with connect_database(settings, "cli") as connection:
        eraser = Eraser(settings, connection)
        unfinished = eraser.list_unfinished()
        for erasure in unfinished:
            eraser.finish(erasure.id)
    return len(unfinished)


def _open(destination: str | None, key_file: Path | None, workspace: Path) -> "Repository":
    """The backups at a location; None: where the workspace file says."""
    from moirae.backup import open_repository

    scheduled = None
    if destination is None or workspace.exists():
        settings = load_settings_from_environment(workspace)
        scheduled = settings.backup
        if destination is None and scheduled is None:
            raise UsageError(
                f"{settings.file}: no folder of backups: name one (`moirae backup DEST`), or add "
                "the key `backup`"
            )
    if scheduled is not None:
        destination = destination or scheduled.to
        if key_file is None and scheduled.key_file is not None:
            key_file = Path(scheduled.key_file)
    assert destination is not None
    return open_repository(destination, key_file)


def _warn_of_incomplete(repository: "Repository", newest: str = "") -> None:
    """Name backups without a manifest that are newer than a complete one."""
    names = [name for name in repository.list_incomplete() if name > newest]
    if names:
        print(
            f"{repository}: not complete: {', '.join(names)}: in progress, interrupted, or its "
            "manifest is lost",
            file=sys.stderr,
        )


@contextmanager
def _report_progress(description: str) -> Iterator[Callable[[int, int], None]]:
    with open_progress_bar(Console(stderr=True)) as progress:
        task = progress.add_task(description, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield report
