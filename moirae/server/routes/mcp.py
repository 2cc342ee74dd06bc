"""`/mcp`: tools for agents, by the Model Context Protocol over HTTP.

Each request stands alone: there are no sessions of the protocol, so that several servers may run behind
one address. The middleware has checked Host, Origin, token and role before.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from moirae.config import Settings
from moirae.server.pool import ConnectionPool
from moirae.server.responses import read_identity
from moirae.server.route_table import RouteAccess
from moirae.server.routes.operations import OperationRunner
from moirae.services import LocalWorkspace, load_operations

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from moirae.mcp import AgentAccess, Call, CallContext
    from moirae.services import Workspace

_PATH = "/mcp"


def add_mcp_route(
    app: FastAPI, settings: Settings, pool: ConnectionPool, runner: OperationRunner
) -> list[RouteAccess]:
    """Add the route, if the library is installed; returns its access."""
    if find_spec("mcp") is None:
        return []
    handler = _McpHandler(settings, pool, runner)
    app.router.routes.append(Route(_PATH, endpoint=handler, methods=["POST"]))
    return [RouteAccess("POST", _PATH, "viewer", has_json_body=True)]


class _McpHandler:
    """An ASGI application with one server of the protocol for each kind of access."""

    def __init__(self, settings: Settings, pool: ConnectionPool, runner: OperationRunner) -> None:
        self._settings = settings
        self._pool = pool
        self._runner = runner
        self._managers: dict[AgentAccess, StreamableHTTPSessionManager] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        from moirae.mcp import AgentAccess

        identity = read_identity(scope)
        access = AgentAccess.of_role(
            identity.role,
            allow_query=identity.allow_query,
            allow_writes=self._settings.server.agents == "write",
        )
        manager = await self._start(access)
        await manager.handle_request(scope, receive, send)

    async def _start(self, access: "AgentAccess") -> "StreamableHTTPSessionManager":
        from mcp.server.transport_security import TransportSecuritySettings

        from moirae.mcp import make_server

        if access not in self._managers:
            server = make_server(self._open_call, access)
            server.streamable_http_app(
                json_response=True,
                stateless_http=True,
                transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            )
            started = asyncio.Event()
            task = asyncio.create_task(_keep_running(server.session_manager, started))
            self._running.add(task)
            await started.wait()
            self._managers[access] = server.session_manager
        return self._managers[access]

    @contextmanager
    def _open_call(self, ctx: "CallContext") -> "Iterator[Call]":
        from moirae.mcp import Call, read_agent_name

        request = ctx.request_context.request
        assert request is not None
        identity = read_identity(request.scope)
        agent = read_agent_name(ctx)
        author = identity.name if agent is None else f"{identity.name} ({agent})"
        yield Call(_PooledWorkspace(self._runner, author), partial(self._record, author))

    def _record(self, author: str, tool: str, arguments: Any) -> None:
        with self._pool.connection() as connection:
            workspace = LocalWorkspace(
                settings=self._settings, connection=connection, author=author, via="mcp"
            )
            workspace.record_use(tool, arguments)


async def _keep_running(manager: "StreamableHTTPSessionManager", started: asyncio.Event) -> None:
    async with manager.run():
        started.set()
        await asyncio.Event().wait()  # until the loop ends


class _PooledWorkspace:
    """Runs operations as requests do: on a connection of the pool, or in a child process."""

    def __init__(self, runner: OperationRunner, author: str) -> None:
        self._runner = runner
        self._author = author

    def with_author(self, author: str | None) -> "Workspace":
        """See `Workspace.with_author`."""
        return self if author is None else _PooledWorkspace(self._runner, author)

    def run(self, operation: Any, arguments: Any) -> Any:
        """See `Workspace.run`."""
        declared = load_operations()[operation.name]
        result = self._runner.run(declared, arguments, self._author, "mcp")
        return TypeAdapter(declared.result_type).validate_python(result)
