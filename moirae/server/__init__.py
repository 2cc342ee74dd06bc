"""The HTTP server: the API, live events, browser sessions, ingest of rows, probes and metrics."""

from moirae.server.app import build_openapi_document
from moirae.server.run import run_server

__all__ = [
    "build_openapi_document",
    "run_server",
]
