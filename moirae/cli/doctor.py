"""`moirae doctor`: verify that the database and the archive agree."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    print_table,
    print_warnings,
)
from moirae.config import Settings
from moirae.runtime import keep_exit_code
from moirae.runtime.storage import archived_streams, check_storage

if TYPE_CHECKING:
    from archiver.delta import StreamSchema

_SHOWN_PROBLEMS = 10  # of one check in a table


def doctor(
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
