"""`tokens`: who may ask the server."""

from enum import StrEnum
from typing import Annotated

import typer

from moirae.cli.options import WORKSPACE, Output, OutputOption, Workspace, database, print_json, print_table
from moirae.errors import UsageError

app = typer.Typer(help="Who may ask the server for what.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Who or what it is for.")]


class RoleName(StrEnum):
    """What a token is good for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


@app.command()
def create(
    name: Name,
    role: Annotated[RoleName, typer.Option("--role", help="Read; also post rows; also reload rules.")],
    workspace: Workspace = WORKSPACE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a token and print it, this once: only a hash of it is kept."""
    from moirae.server import tokens

    with database(workspace) as (_, connection):
        token = tokens.create(connection, name, role.value)
    if output is Output.JSON:
        print_json({"name": name, "role": role, "token": token})
    else:
        print(token)


@app.command("list")
def list_(workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Names and roles of all tokens, also of revoked ones."""
    from moirae.server import tokens

    with database(workspace) as (_, connection):
        rows = tokens.listed(connection)
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(["name", "role", "made", "revoked"], [row.values() for row in rows], "nobody has a token")


@app.command()
def revoke(name: Name, workspace: Workspace = WORKSPACE) -> None:
    """End a token, at once."""
    from moirae.server import tokens

    with database(workspace) as (_, connection):
        if not tokens.revoke(connection, name):
            raise UsageError(f"no token {name!r} that holds, as `moirae tokens list` shows them")
    print(f"the token {name} holds no more")
