"""The HTTP server: the API, live events, browser sessions, ingest of rows, probes and metrics."""

from moirae.server.run import run_server

__all__ = [
    "run_server",
]
