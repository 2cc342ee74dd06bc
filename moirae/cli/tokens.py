"""`moirae tokens`: manage API tokens."""

from dataclasses import astuple
from enum import StrEnum
from typing import Annotated

import typer

import sql
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

app = typer.Typer(help="Manage API tokens.", no_args_is_help=True)

TokenNameArgument = Annotated[
    str, typer.Argument(help="Name of the token, such as its user or program.")
]


class TokenRoleName(StrEnum):
    """Roles of tokens. Each includes the permissions of those before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.command()
def create(
    name: TokenNameArgument,
    role: Annotated[
        TokenRoleName,
        typer.Option("--role", help="viewer reads, operator also posts rows, admin reloads rules."),
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Create a token and print it. It cannot be shown again: only its hash is stored."""
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
    """List tokens with name and role, including revoked ones."""
    with open_workspace(workspace) as (_, connection):
        tokens = sql.TokenGateway(connection).list_all()
    if output is OutputFormat.JSON:
        print_json(tokens)
        return
    print_table(["name", "role", "created", "revoked"], map(astuple, tokens), "no tokens")


@app.command()
def revoke(name: TokenNameArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """Revoke a token. It takes effect immediately."""
    with open_workspace(workspace) as (_, connection):
        if not sql.TokenGateway(connection).revoke(name):
            raise UsageError(f"no active token named {name!r}: see `moirae tokens list`")
    print(f"revoked token {name}")
