"""`moirae relations`: list relations, and accept a version that is held back."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    get_first_line,
    print_json,
    print_table,
    to_seconds,
)
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(
    help="List relations, and accept a version that is held back.", no_args_is_help=True
)

_COLUMNS = ("relation", "source", "state", "rows", "read at", "held back", "error")


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List declared relations: rows in use, a version that is held back, errors."""
    from moirae.services.operations.relations import list_relations

    with open_services(workspace) as services:
        relations = list_relations(services)
    if output is OutputFormat.JSON:
        print_json(relations)
    else:
        print_table(_COLUMNS, map(_format_relation, relations), "no relations are declared")


@app.command()
def accept(
    relation: Annotated[str, typer.Argument(metavar="NAME", help="Name of the relation.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Use the version of a relation that is held back because it has far fewer rows.

    The version is used once a live process runs, unless its source has changed by then.
    """
    from moirae.services.operations.relations import accept_relation

    with open_services(workspace) as services:
        version = accept_relation(services, relation)
    if output is OutputFormat.JSON:
        print_json({"relation": relation, **vars(version)})
    else:
        print(f"accepted: relation {relation} with {version.rows:,} rows, used by the live process")


def _format_relation(relation: Any) -> Iterable[Any]:
    held_rows = ""
    if relation.held_version is not None:
        held_rows = f"{relation.held_version.rows:,} rows"
        if relation.held_version.accepted:
            held_rows += ", accepted"
    state = [relation.relation, relation.source, relation.state]
    read_at = to_seconds(relation.read_at)
    return [*state, relation.rows, read_at, held_rows, get_first_line(relation.error)]
