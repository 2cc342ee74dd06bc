"""The tools of a server, served on standard input and output.

Each request goes on to `/mcp` of the server, with the name of the agent: the role of the token decides
there what the agent may do, and the audit log of the server has its calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    Implementation,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
)

from moirae import __version__
from moirae.mcp import tools
from moirae.mcp.server import INSTRUCTIONS, read_agent_name
from moirae.services import ServerAddress

_PATH = "/mcp"
_CONNECT_TIMEOUT = 10.0  # seconds
_READ_TIMEOUT = 180.0  # seconds; `why` and `explain_rule` start Spark

_Result = TypeVar("_Result")
_Context = ServerRequestContext[Any, Any]
_Page = PaginatedRequestParams | None


def serve_tools_of(address: ServerAddress, *, allow_writes: bool) -> None:
    """Serve until standard input ends. Without `allow_writes`, only tools that change nothing."""
    anyio.run(_Bridge(address, allow_writes=allow_writes).run)


class _Bridge:
    """Answers each request by one to the server."""

    def __init__(self, address: ServerAddress, *, allow_writes: bool) -> None:
        self._address = address
        self._allow_writes = allow_writes
        self._server: Server[Any] = Server(
            "moirae",
            title="Moirae",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_resource_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def run(self) -> None:
        async with stdio_server() as (requests, answers):
            options = self._server.create_initialization_options()
            await self._server.run(requests, answers, options)

    async def _list_tools(self, ctx: _Context, page: _Page) -> ListToolsResult:
        cursor = _read_cursor(page)
        listed = await self._ask(ctx, lambda client: client.list_tools(cursor=cursor))
        return listed.model_copy(
            update={"tools": [tool for tool in listed.tools if self._permits(tool.name)]}
        )

    async def _call_tool(self, ctx: _Context, call: CallToolRequestParams) -> CallToolResult:
        if not self._permits(call.name):
            text = f"no tool {call.name}: tools that change something need --allow-writes"
            return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
        return await self._ask(ctx, lambda client: client.call_tool(call.name, call.arguments))

    async def _list_resources(self, ctx: _Context, page: _Page) -> ListResourcesResult:
        cursor = _read_cursor(page)
        return await self._ask(ctx, lambda client: client.list_resources(cursor=cursor))

    async def _list_resource_templates(
        self, ctx: _Context, page: _Page
    ) -> ListResourceTemplatesResult:
        cursor = _read_cursor(page)
        return await self._ask(ctx, lambda client: client.list_resource_templates(cursor=cursor))

    async def _read_resource(
        self, ctx: _Context, resource: ReadResourceRequestParams
    ) -> ReadResourceResult:
        return await self._ask(ctx, lambda client: client.read_resource(str(resource.uri)))

    async def _list_prompts(self, ctx: _Context, page: _Page) -> ListPromptsResult:
        cursor = _read_cursor(page)
        return await self._ask(ctx, lambda client: client.list_prompts(cursor=cursor))

    async def _get_prompt(self, ctx: _Context, prompt: GetPromptRequestParams) -> GetPromptResult:
        return await self._ask(ctx, lambda client: client.get_prompt(prompt.name, prompt.arguments))

    def _permits(self, tool: str) -> bool:
        return self._allow_writes or tool in tools.READING or tool in tools.ASKING

    async def _ask(self, ctx: _Context, request: Callable[[Client], Awaitable[_Result]]) -> _Result:
        """The answer of the server. Raises `MCPError`."""
        try:
            async with self._connect(read_agent_name(ctx)) as client:
                return await request(client)
        except* MCPError as group:
            raise _find_first(group) from None
        except* httpx2.HTTPError as group:
            message = f"{self._address.url}: {_find_first(group)}"
            raise MCPError(INTERNAL_ERROR, message) from None

    @asynccontextmanager
    async def _connect(self, agent: str | None) -> AsyncIterator[Client]:
        url = self._address.url.rstrip("/")
        info = Implementation(name=agent or "agent", version=__version__)
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._address.token}"},
            timeout=httpx2.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
            # A proxy of the environment would get the token of plain HTTP in clear text.
            trust_env=url.startswith("https:"),
        ) as http:
            transport = streamable_http_client(url + _PATH, http_client=http)
            async with Client(transport, client_info=info, cache=None) as client:
                yield client


def _read_cursor(page: _Page) -> str | None:
    return None if page is None else page.cursor


def _find_first(group: BaseException) -> Exception:
    """The first exception of a group of groups."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    assert isinstance(group, Exception)
    return group
