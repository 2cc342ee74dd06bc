"""`moirae mcp`: tools for agents on standard input and output."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import DEFAULT_WORKSPACE, WorkspaceOption
from moirae.cli.remote import accept_server, find_server, open_services
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.mcp import Call


@accept_server
def mcp(
    allow_writes: Annotated[
        bool,
        typer.Option(
            "--allow-writes",
            help="Let agents query the history, acknowledge alerts, add notes, checked steps and "
            "short silences, and propose resolutions.",
        ),
    ] = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Serve agents by the Model Context Protocol on standard input and output."""
    from moirae.services import LocalWorkspace

    try:
        from moirae.mcp import AgentAccess, Call, make_server, read_agent_name, serve_tools_of
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        raise UsageError(
            "the library of the Model Context Protocol is not installed: pip install 'moirae-monitoring[mcp]'"
        ) from None

    address = find_server()
    if address is not None:
        serve_tools_of(address, allow_writes=allow_writes)
        return

    @contextmanager
    def open_call(ctx: Any) -> "Iterator[Call]":
        with open_services(workspace) as services:
            assert isinstance(services, LocalWorkspace)
            author = f"{services.author} ({read_agent_name(ctx) or 'agent'})"
            local = replace(services, author=author, via="mcp")
            yield Call(local, local.record_use)

    with open_services(workspace):  # what is wrong with it is said before an agent calls
        pass
    make_server(open_call, AgentAccess(can_ask=allow_writes, can_write=allow_writes)).run()
