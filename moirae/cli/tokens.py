"""`moirae tokens`: manage API tokens."""

import sys
from dataclasses import astuple
from enum import StrEnum
from typing import Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    print_json,
    print_table,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(help="Manage API tokens.", no_args_is_help=True)

TokenNameArgument = Annotated[
    str, typer.Argument(help="Name of the token, such as its user or program.")
]


class TokenRoleName(StrEnum):
    """Roles of tokens: one that only posts data; then each includes the one before."""

    SOURCE = "source"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class Right(StrEnum):
    """What a token may do beyond its role."""

    QUERY = "query"


@app.command()
def create(
    name: TokenNameArgument,
    role: Annotated[
        TokenRoleName,
        typer.Option(
            "--role",
            help="source: post data, nothing else. viewer: read. operator: also act on alerts and "
            "post data. admin: everything.",
        ),
    ],
    stream: Annotated[
        str | None,
        typer.Option("--stream", help="With role source: the only stream that it may post for."),
    ] = None,
    allow: Annotated[
        Right | None,
        typer.Option("--allow", help="With role viewer: query, to ask the history in SQL, too."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Create a token and print it. It cannot be shown again: only its hash is stored."""
    from moirae.services.operations.system import TokenBody, create_token

    allowed = [] if allow is None else [allow.value]
    body = make_query(TokenBody, name=name, role=role.value, stream=stream, allow=allowed)
    with open_services(workspace) as services:
        token = create_token(services, body).token
    if output is OutputFormat.JSON:
        print_json({"name": name, "role": role, "token": token})
    else:
        print(token)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List tokens with name and role, including revoked ones."""
    from moirae.services.operations.system import TokenQuery, list_tokens

    query = make_query(TokenQuery)
    with open_services(workspace) as services:
        tokens, _ = collect_rows(services, list_tokens, query, "tokens", sys.maxsize)
    if output is OutputFormat.JSON:
        print_json(tokens)
        return
    columns = ["name", "role", "stream", "may query", "created", "revoked"]
    rows = [[*astuple(token)] for token in tokens]
    for row in rows:
        row[3] = "yes" if row[3] else ""
    print_table(columns, rows, "no tokens")


@app.command()
def revoke(name: TokenNameArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """Revoke a token. It takes effect immediately."""
    from moirae.services.operations.system import revoke_token

    with open_services(workspace) as services:
        revoke_token(services, name)
    print(f"revoked token {name}")


@app.command("login-url")
def login_url(
    name: TokenNameArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print a single-use login URL for the dashboard, valid for ten minutes."""
    from moirae.services.operations.system import create_login_code

    with open_services(workspace) as services:
        code = create_login_code(services, name)
    if output is OutputFormat.JSON:
        print_json({"name": code.name, "url": code.url})
    else:
        print(code.url)
