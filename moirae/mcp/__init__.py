"""Tools for agents, by the Model Context Protocol: what happened before, and what fixed it."""

from moirae.mcp.bridge import serve_tools_of
from moirae.mcp.server import (
    AgentAccess,
    Call,
    CallContext,
    OpenCall,
    make_server,
    read_agent_name,
)

__all__ = [
    "AgentAccess",
    "Call",
    "CallContext",
    "OpenCall",
    "make_server",
    "read_agent_name",
    "serve_tools_of",
]
