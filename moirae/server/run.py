"""The server process of a workspace."""

import errno
import ipaddress
import socket
import threading
from contextlib import suppress
from functools import partial

import structlog
import uvicorn

from archiver.formats import Format
from archiver.periodic import Periodic
from archiver.threads import start_daemon
from moirae.config import EXTERNAL_ALERTS, HttpSource, Settings
from moirae.errors import MoiraeError, RequestRejected, Unreachable, UsageError
from moirae.runtime import (
    ReconnectingRole,
    Standby,
    check_shared_values,
    connect_database,
    keep_lease,
    machine_name,
    record_failure,
    watch_parent,
)
from moirae.server.app import create_application
from moirae.server.http_protocol import HttpProtocol
from moirae.server.ingest import IngestHandler, IngestLimits
from moirae.server.pool import ConnectionPool
from moirae.server.syslog import SyslogListeners
from moirae.services import tokens
from sql.access import AuditGateway, SessionGateway
from sql.reports import ChangeGateway

_LOG = structlog.get_logger()

_HEARTBEAT_INTERVAL = 2.0  # seconds
_ROLE_TIMEOUT = 15.0  # seconds to wait until a previous server process has stopped
_MAX_SERVERS = 8  # of a workspace, each on a machine of its own
_SHUTDOWN_TIMEOUT = 5  # seconds for open requests
_EXPIRY_INTERVAL = 600.0  # seconds between deletions of what has expired
_MAX_CONNECTIONS = 400
# Milliseconds in which a client must acknowledge what was sent: a client that never reads is
# disconnected by the kernel.
_TCP_USER_TIMEOUT = 60_000
_KEEP_ALIVE_TIMEOUT = 5  # seconds


def run_server(settings: Settings, stop: threading.Event, parent_pid: int | None = None) -> None:
    """Serve until `stop` is set or the process `parent_pid` exits. Raises `MoiraeError`."""
    watch_parent(parent_pid, stop)
    with connect_database(settings, "server") as connection:
        check_shared_values(settings, connection)
    role = _acquire_role(settings, stop)
    keep_lease(settings, role.name, role.epoch)
    with record_failure(role):
        if not _is_loopback(settings.server.host) and not tokens.has_active_token(role.connection):
            raise UsageError(
                f"server.listen {settings.server.listen} is reachable from other machines, but "
                "there is no token: create one with `moirae tokens create NAME`, or listen on "
                "127.0.0.1"
            )
        ChangeGateway(role.connection).delete_restored()
        listening_socket = _open_socket(settings)
    pool = ConnectionPool(settings)
    redacted = {name: stream for name, stream in settings.streams.items() if stream.redact}
    ingest_handler = IngestHandler(
        settings.home, _http_formats(settings), pool, IngestLimits(), redacted, settings.landing
    )
    tls = settings.server.tls
    server = uvicorn.Server(
        uvicorn.Config(
            create_application(settings, pool, ingest_handler),
            http=HttpProtocol,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=bool(settings.server.proxies),
            forwarded_allow_ips=list(settings.server.proxies),
            ssl_certfile=None if tls is None else tls.cert,
            ssl_keyfile=None if tls is None else tls.key,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_TIMEOUT,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        )
    )
    with record_failure(role):
        listeners = SyslogListeners(settings, pool, ingest_handler)
        listeners.start()
    thread = start_daemon(lambda: server.run(sockets=[listening_socket]), "server")
    address = "{}:{}".format(*listening_socket.getsockname()[:2])
    _LOG.info("server is listening", action="server_listens", address=address)
    role.heartbeat(f"listening on {address}")
    expiry = Periodic("expiry", _EXPIRY_INTERVAL, partial(_delete_expired, pool, ingest_handler))
    try:
        with record_failure(role):
            while not stop.wait(_HEARTBEAT_INTERVAL):
                if not thread.is_alive():
                    raise RuntimeError("the HTTP server has ended unexpectedly")
                if not listeners.is_running():
                    raise RuntimeError("the listeners for syslog have ended unexpectedly")
                role.heartbeat(f"listening on {address}")
                expiry.run_if_due()
    finally:
        server.should_exit = True
        listeners.stop()
        thread.join(2 * _SHUTDOWN_TIMEOUT)  # requests that take longer end with the process
        pool.close()
    role.mark_ended()


def _acquire_role(settings: Settings, stop: threading.Event) -> ReconnectingRole:
    """The role of a server. Several serve at a time if all machines reach what they accept."""
    connect = partial(connect_database, settings, "server")
    standby = Standby(machine_name(settings), stop)
    if settings.landing is None:
        return ReconnectingRole(connect, "server", _ROLE_TIMEOUT, standby)
    return ReconnectingRole.acquire_numbered(
        connect, "server", _ROLE_TIMEOUT, standby, _MAX_SERVERS
    )


def _delete_expired(pool: ConnectionPool, ingest_handler: IngestHandler) -> None:
    """Delete expired idempotency keys, sessions and login codes."""
    with suppress(Unreachable, RequestRejected):  # the next interval will do
        ingest_handler.delete_expired_keys()
        with pool.connection() as connection:
            AuditGateway(connection).delete_expired_requests()
            SessionGateway(connection).delete_expired()


def _http_formats(settings: Settings) -> dict[str, Format]:
    """The formats of the streams with an HTTP source."""
    formats: dict[str, Format] = {}
    for name, stream in settings.streams.items():
        # What is posted about alerts has a route of its own.
        if isinstance(stream.source, HttpSource) and name != EXTERNAL_ALERTS:
            formats[name] = stream.source.record_format
    return formats


def _open_socket(settings: Settings) -> socket.socket:
    """A listening socket on `server.listen`. Raises `MoiraeError`."""
    host = settings.server.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening_socket = socket.create_server((host, settings.server.port), family=family)
    except OSError as error:
        file = settings.file.name
        if error.errno == errno.EADDRINUSE:
            reason = (
                "the port is in use by another program, perhaps the server of another workspace: "
                f"stop that program, or set server.listen in {file} to a free port"
            )
        else:
            reason = f"{error.strerror}: set server.listen in {file} to an address of this machine"
        raise MoiraeError(f"cannot listen on {settings.server.listen}: {reason}") from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        listening_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT)
    return listening_socket


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
