"""`moirae audit`: the log of changes by operators."""

from typing import Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import open_services
from sql.access import AuditRow

AuditAuthorOption = Annotated[
    str | None, typer.Option("--author", help="Show only changes by this author.")
]
OperationOption = Annotated[
    str | None,
    typer.Option("--operation", help="Show only this operation, such as alerts.resolve."),
]


def audit(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    author: AuditAuthorOption = None,
    operation: OperationOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List changes made by operators with the command line or API, newest first."""
    from moirae.services import MAX_PAGE_ROWS
    from moirae.services.operations.system import AuditQuery, list_audit

    query = make_query(AuditQuery, author=author, operation=operation)
    rows: list[AuditRow] = []
    with open_services(workspace) as services:
        while len(rows) < limit:
            size = min(limit - len(rows), MAX_PAGE_ROWS)
            page = list_audit(services, query.model_copy(update={"limit": size}))
            rows += page.changes
            query = query.model_copy(update={"cursor": page.next})
            if page.next is None:
                break
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = ["time", "author", "via", "operation", "arguments"]
    print_table(columns, map(_format_row, rows), "no changes")


def _format_row(row: AuditRow) -> tuple[Any, ...]:
    return row.at, row.author, row.via, row.operation, row.arguments
