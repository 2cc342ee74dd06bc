"""The status of a workspace, its tokens, and the audit log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, cast

from pydantic import ConfigDict, Field, with_config

from moirae.errors import NotFound, UsageError
from moirae.inspect import ProcessStatus, StatusReport
from moirae.runtime.storage import measure_disk_space, open_storage
from moirae.services import tokens
from moirae.services.models import (
    Arguments,
    Name,
    PageQuery,
    decode_cursor,
    next_cursor,
    parse_number,
)
from moirae.services.operation import Role, operation
from sql.access import AuditGateway, AuditRow, TokenGateway, TokenRow

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace


_MAX_LISTED = 20  # of what is not complete or set aside, in a brief status


@with_config(ConfigDict(extra="allow"))
class WorkspaceStatus(StatusReport):
    """The status of a workspace, with its problems and warnings about its files."""

    problems: Sequence[str]
    warnings: Sequence[str]


class StatusQuery(Arguments):
    """Which parts of the status to show."""

    brief: bool = Field(
        False,
        description="Leave `rules` empty, and list at most "
        f"{_MAX_LISTED} of `incomplete_rules`, `set_aside` and `retrying`.",
    )


class TokenBody(Arguments):
    """A token to create."""

    name: str = Field(max_length=100, description="Name, such as its user or program.")
    role: Role = Field(
        description="source only posts data, viewer reads, operator also acts on alerts and posts "
        "data, admin all."
    )
    stream: Name | None = Field(
        None, description="With role source: the only stream that it may post for."
    )
    allow: list[Literal["query"]] = Field(
        default=[],
        max_length=1,
        description="With role viewer: query, to ask the history as an operator may.",
    )


class TokenQuery(PageQuery):
    """Which part of the list of tokens."""


class AuditQuery(PageQuery):
    """Which changes to list."""

    author: Name | None = Field(None, description="Only changes by this author.")
    operation: Name | None = Field(None, description="Only this operation: alerts.resolve.")


@dataclass(frozen=True)
class TokenPage:
    """Tokens by name and age. `next`: cursor of the next page. `total`: if it was asked for."""

    tokens: Sequence[TokenRow]
    next: str | None
    total: int | None


@dataclass(frozen=True)
class CreatedToken:
    """A new token. It cannot be read again."""

    name: str
    role: Role
    token: str


@dataclass(frozen=True)
class LoginCode:
    """A one-time code. `url`: opens a session when visited within ten minutes."""

    name: str
    code: str
    url: str


@dataclass(frozen=True)
class RevokedToken:
    name: str


@dataclass(frozen=True)
class AuditPage:
    """Changes by operators, newest first. `next`: cursor of the next page. `total`: if it was
    asked for.
    """

    changes: Sequence[AuditRow]
    next: str | None
    total: int | None


@operation("GET", "/status", role="viewer")
def show_status(workspace: "LocalWorkspace", query: StatusQuery) -> WorkspaceStatus:
    """Show counters, processes and problems of the workspace."""
    from moirae.inspect import (
        collect_status,
        find_changed_declarations,
        list_problems,
        measure_unread_input,
    )

    settings = workspace.settings
    report = collect_status(
        workspace.connection,
        open_storage(settings),
        measure_disk_space(settings),
        settings.backup,
        {name: stream.keep or settings.chunks.keep for name, stream in settings.streams.items()},
        settings.alerts.keep,
    )
    report["unread_input"] = measure_unread_input(
        settings, workspace.connection, report["unread_input"], report["processes"]
    )
    changed = find_changed_declarations(settings, workspace.connection)
    assessment = {
        "problems": list_problems(report),
        "warnings": [*map(str, settings.warnings), *filter(None, [changed])],
    }
    if query.brief:
        report["rules"] = []
        for name in ("incomplete_rules", "set_aside", "retrying"):
            report[name] = report[name][:_MAX_LISTED]
    return cast(WorkspaceStatus, {**report, **assessment})


@operation("GET", "/processes/{name}", role="viewer")
def show_process(workspace: "LocalWorkspace", name: Name) -> ProcessStatus:
    """Show the last process of a role: up, live, recall or server."""
    from moirae.runtime import list_processes

    for process in list_processes(workspace.connection):
        if process["role"] == name:
            return cast(ProcessStatus, process)
    raise NotFound(f"no process {name!r} has run in this workspace")


@operation("GET", "/tokens", role="admin")
def list_tokens(workspace: "LocalWorkspace", query: TokenQuery) -> TokenPage:
    """List tokens with name and role, including revoked ones, by name."""
    gateway = TokenGateway(workspace.connection)
    after = decode_cursor(query.cursor, datetime.fromisoformat, str)
    rows = gateway.list_page(after, query.limit)
    following = next_cursor(rows, query.limit, lambda token: (token.created_at, token.name))
    return TokenPage(rows, following, gateway.count() if query.count else None)


@operation("POST", "/tokens", role="admin", has_secret_result=True)
def create_token(workspace: "LocalWorkspace", body: TokenBody) -> CreatedToken:
    """Create a token. It cannot be shown again: only its hash is stored."""
    if body.stream is not None:
        if body.role != "source":
            raise UsageError(f"role {body.role} takes no stream: only role source does")
        if body.stream not in workspace.settings.streams:
            raise UsageError(f"no stream {body.stream!r} is declared: see `moirae streams list`")
    if body.allow and body.role != "viewer":
        raise UsageError(f"role {body.role} takes no rights to query: only role viewer does")
    token = tokens.create_token(
        workspace.connection, body.name, body.role, body.stream, allow_query=bool(body.allow)
    )
    return CreatedToken(body.name, body.role, token)


@operation("DELETE", "/tokens/{name}", role="admin")
def revoke_token(workspace: "LocalWorkspace", name: Name) -> RevokedToken:
    """Revoke a token. It takes effect immediately, also for its sessions."""
    if not TokenGateway(workspace.connection).revoke(name):
        raise NotFound(f"no active token named {name!r}: see `moirae tokens list`")
    return RevokedToken(name)


@operation("POST", "/tokens/{name}/login-codes", role="admin", has_secret_result=True)
def create_login_code(workspace: "LocalWorkspace", name: Name) -> LoginCode:
    """Create a one-time code that opens a browser session of a token."""
    code = tokens.create_login_code(workspace.connection, name)
    return LoginCode(name, code, f"{workspace.settings.server.public_url}/login#code={code}")


@operation("GET", "/audit", role="admin")
def list_audit(workspace: "LocalWorkspace", query: AuditQuery) -> AuditPage:
    """List changes by operators with their authors, newest first."""
    cursor = decode_cursor(query.cursor, parse_number)
    gateway = AuditGateway(workspace.connection)
    rows = gateway.list_newest(
        author=query.author,
        operation=query.operation,
        before=None if cursor is None else cursor[0],
        limit=query.limit,
    )
    following = next_cursor(rows, query.limit, lambda row: (row.id,))
    total = None
    if query.count:
        total = gateway.count(author=query.author, operation=query.operation)
    return AuditPage(rows, following, total)
