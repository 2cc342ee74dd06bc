"""`tokens`: who may ask the server."""

from enum import StrEnum
from typing import Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    print_table,
)
from moirae.errors import UsageError

app = typer.Typer(help="Who may ask the server for what.", no_args_is_help=True)

TokenNameArgument = Annotated[str, typer.Argument(help="Who or what it is for.")]


class TokenRoleName(StrEnum):
    """What a token is good for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.command()
def create(
    name: TokenNameArgument,
    role: Annotated[
        TokenRoleName, typer.Option("--role", help="Read; also post rows; also reload rules.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make a token and print it, this once: only a hash of it is kept."""
    from moirae.server import create_token

    with open_workspace(workspace) as (_, connection):
        token = create_token(connection, name, role.value)
    if output is OutputFormat.JSON:
        print_json({"name": name, "role": role, "token": token})
    else:
        print(token)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Names and roles of all tokens, also of revoked ones."""
    from moirae.server import list_tokens

    with open_workspace(workspace) as (_, connection):
        rows = list_tokens(connection)
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        print_table(
            ["name", "role", "made", "revoked"],
            [row.values() for row in rows],
            "nobody has a token",
        )


@app.command()
def revoke(name: TokenNameArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """End a token, at once."""
    from moirae.server import revoke_token

    with open_workspace(workspace) as (_, connection):
        if not revoke_token(connection, name):
            raise UsageError(f"no token {name!r} that holds, as `moirae tokens list` shows them")
    print(f"the token {name} holds no more")
