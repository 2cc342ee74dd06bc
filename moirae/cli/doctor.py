"""`moirae doctor`: verify that the database and the archive agree, and repair what does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    open_workspace,
    print_json,
    print_table,
    print_warnings,
)
from moirae.config import Settings
from moirae.errors import UsageError
from moirae.runtime import Role, keep_exit_code
from moirae.runtime.storage import archived_streams, check_storage

if TYPE_CHECKING:
    import sql
    from archiver.delta import StreamSchema
    from moirae.backup import Repository
    from moirae.inspect import Finding

_SHOWN_PROBLEMS = 10  # of one check in a table


_REPAIR_COLUMNS = ("subject", "damage", "repair", "lost")
# None of them may run while files and ledger are changed.
_STOPPED_ROLES = ("up", "live", "recall", "backup")


@dataclass(frozen=True)
class _RepairOptions:
    """Options of a repair."""

    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Repair what is damaged, while the workspace is stopped: files are taken from the "
            "backups of the schedule or of --from, rows read again from their sources; what nobody "
            "has any more is listed and recorded as lost. Damaged files are set aside in `damaged` "
            "below the home.",
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --repair: only say what would be done and lost."),
    ] = False
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DEST",
            help="With --repair: folder of backups, or s3://BUCKET/PREFIX. Default: `backup.to` of "
            "the workspace file.",
        ),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="With --repair: file of the age key by which the backups are encrypted.",
        ),
    ] = None


@expand_option_groups
def doctor(
    repairs: _RepairOptions,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Also open each table with Spark: verify row counts, columns, earlier versions and "
            "commits of other programs.",
        ),
    ] = False,
) -> None:
    """Verify that database and archive agree about every row. Exit code 1 if a check fails."""
    if repairs.repair:
        if spark:
            raise UsageError("--repair: omit --spark")
        _repair(workspace, repairs, output)
        return
    if repairs != _RepairOptions():
        raise UsageError("--dry-run, --from and --key-file are options of --repair: add it")
    from moirae.inspect import run_checks
    from moirae.rules import find_unused_keys, read_rule_files

    with open_workspace(workspace) as (settings, connection):
        rules, _ = read_rule_files(settings.find_rule_files(), settings.table_names)
        print_warnings([*settings.warnings, *find_unused_keys(rules)])
        check_storage(settings)
        findings = run_checks(settings, connection)
        schemas = archived_streams(settings, connection)
    if spark:
        findings += _run_delta_checks(settings, schemas)
    end_with_findings(findings, output)


def end_with_findings(findings: "Sequence[Finding]", output: OutputFormat) -> NoReturn:
    """Print the results of checks. Exit code 1 if one has found a problem."""
    exit_code = 1 if any(map(attrgetter("problems"), findings)) else 0
    keep_exit_code(exit_code)
    if output is OutputFormat.JSON:
        print_json(list(map(vars, findings)))
    else:
        rows = []
        for finding in findings:
            result = "FAIL" if finding.problems else "OK"
            rows.append(
                (result, finding.check, format_problems(finding.problems) or finding.summary)
            )
        print_table(["result", "check", "details"], rows, "")
    raise typer.Exit(exit_code)


def _repair(workspace: Path, options: _RepairOptions, output: OutputFormat) -> None:
    from archiver.spark import session_on_demand
    from moirae.repair import BackupFiles, Repairs
    from sql.workspace import WorkspaceGateway

    with open_workspace(workspace) as (settings, connection):
        check_storage(settings)
        if not options.dry_run:
            _hold_roles(connection)
        identity = WorkspaceGateway(connection).get()
        backups = BackupFiles(_open_backups(settings, options), identity)
        with session_on_demand("moirae doctor", Path(settings.home) / "warehouse") as open_spark:
            repairs = Repairs(settings, connection, backups, open_spark)
            steps = [step.to_json() for step in repairs.run(dry_run=options.dry_run)]
    if output is OutputFormat.JSON:
        print_json(steps)
        return
    rows = [tuple(step.values()) for step in steps]
    print_table(_REPAIR_COLUMNS, rows, "nothing to repair: see `moirae doctor`")
    if steps and options.dry_run:
        print("Nothing was changed: omit --dry-run to repair.")
    elif steps:
        print("Repaired. Run `moirae doctor`, then `moirae up`.")


def _hold_roles(connection: "sql.Connection") -> None:
    """Raise `RoleTaken` unless the workspace is stopped, and `Conflict` while it is backed up.

    Neither its processes nor backups can start until the end.
    """
    from moirae.backup import hold_backup_lock

    for role in _STOPPED_ROLES:
        Role(connection, role, 0.0)
    hold_backup_lock(connection)


def _open_backups(settings: Settings, options: _RepairOptions) -> "Repository | None":
    from moirae.backup import open_repository, open_scheduled

    if options.source is not None:
        return open_repository(options.source, options.key_file)
    return None if settings.backup is None else open_scheduled(settings.backup)


def _run_delta_checks(settings: Settings, schemas: "Sequence[StreamSchema]") -> list[Any]:
    from archiver.spark import open_session
    from moirae.inspect import run_delta_checks

    warehouse = Path(settings.home) / "warehouse"
    with open_session("moirae doctor", warehouse) as session:
        return run_delta_checks(settings, schemas, session)


def format_problems(problems: Sequence[str]) -> str:
    """The problems that a check has found, as far as a table shows them."""
    text = "; ".join(problems[:_SHOWN_PROBLEMS])
    omitted = len(problems) - _SHOWN_PROBLEMS
    if omitted <= 0:
        return text
    return f"{text}; … and {omitted:,} more (use -o json)"
