"""The HTTP server: ingest of rows, probes, rules and alerts."""

from moirae.server.run import run_server
from moirae.server.tokens import create_token

__all__ = [
    "create_token",
    "run_server",
]
