"""The server process of a workspace."""

import errno
import ipaddress
import socket
import threading
import time
from contextlib import suppress
from functools import partial

import structlog
import uvicorn

from moirae.config import HttpSource, Settings
from moirae.errors import MoiraeError, RequestRejected, Unreachable, UsageError
from moirae.runtime import ReconnectingRole, connect_database, record_failure, watch_parent
from moirae.server import tokens
from moirae.server.app import create_application
from moirae.server.ingest import IngestHandler, IngestLimits
from moirae.server.pool import ConnectionPool

_LOG = structlog.get_logger()

# Seconds: between two signs of life; for a predecessor to end; for answers that are being given at
# the end; between two looks for keys to forget.
_HEARTBEAT_INTERVAL, _ROLE_TIMEOUT, _SHUTDOWN_TIMEOUT, _KEY_EXPIRY_INTERVAL = 2.0, 15.0, 5, 3600.0


def run_server(settings: Settings, stop: threading.Event, parent_pid: int | None = None) -> None:
    """Serve until `stop` is set. `parent`: the process with which this one ends. Raises
    `MoiraeError`.
    """
    watch_parent(parent_pid, stop)
    role = ReconnectingRole(partial(connect_database, settings, "server"), "server", _ROLE_TIMEOUT)
    with record_failure(role):
        if not _is_loopback(settings.server.host) and not tokens.has_active_token(role.connection):
            raise UsageError(
                f"server.listen is {settings.server.listen}, which others can reach, and nobody "
                f"has a token: "
                "make one with `moirae tokens create NAME`, or listen on 127.0.0.1"
            )
        listening = _open_socket(settings)
    connections = ConnectionPool(settings)
    push = IngestHandler(settings.home, _http_streams(settings), connections, IngestLimits())
    app = create_application(settings, connections, push)
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=200,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listening]}, name="server", daemon=True
    )
    thread.start()
    address = "{}:{}".format(*listening.getsockname()[:2])
    _LOG.info("server listens", action="server_listens", address=address)
    role.heartbeat(f"listening on {address}")
    forgotten = float("-inf")
    try:
        while not stop.wait(_HEARTBEAT_INTERVAL) and thread.is_alive():
            role.heartbeat(f"listening on {address}")
            if time.monotonic() - forgotten > _KEY_EXPIRY_INTERVAL:
                forgotten = time.monotonic()
                with suppress(Unreachable, RequestRejected):  # there is time
                    push.delete_expired_keys()
    finally:
        server.should_exit = True
        thread.join(2 * _SHUTDOWN_TIMEOUT)  # a request that takes longer ends with the process
        connections.close()
        role.mark_ended()


def _http_streams(settings: Settings) -> list[str]:
    return [
        name for name, stream in settings.streams.items() if isinstance(stream.source, HttpSource)
    ]


def _open_socket(settings: Settings) -> socket.socket:
    host, port = settings.server.host, settings.server.port
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = (
                "the port is in use by another program, which may be the server of another "
                "workspace: "
                f"stop that program, or set server.listen in {settings.file.name} to a free port"
            )
        else:
            reason = f"{error.strerror}: set server.listen in {settings.file.name} to an address of this machine"
        raise MoiraeError(f"cannot listen on {settings.server.listen}: {reason}") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
