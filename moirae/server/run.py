"""The server process of a workspace."""

import ipaddress
import socket
import threading
import time
from contextlib import suppress
from functools import partial

import structlog
import uvicorn

from moirae import database
from moirae.errors import MoiraeError, Unreachable, UsageError
from moirae.process import Kept
from moirae.server import tokens
from moirae.server.answers import Refused
from moirae.server.app import application
from moirae.server.connections import Connections
from moirae.server.push import Limits, Push
from moirae.settings import Settings
from moirae.streams import HttpSource
from moirae.up import watch_parent

_LOG = structlog.get_logger()

# Seconds: between two signs of life; for a predecessor to end; for answers that are being given at the end; between
# two looks for keys to forget.
_BEAT, _PATIENCE, _GRACE, _FORGET = 2.0, 15.0, 5, 3600.0


def run(settings: Settings, stop: threading.Event, parent: int | None = None) -> None:
    """Serve until `stop` is set. `parent`: the process with which this one ends. Raises `MoiraeError`."""
    watch_parent(parent, stop)
    role = Kept(partial(database.connect, settings, "server"), "server", _PATIENCE)
    if not _loopback(settings.server.host) and not tokens.any_valid(role.connection):
        raise UsageError(
            f"server.listen is {settings.server.listen}, which others can reach, and nobody has a token: "
            "make one with `moirae tokens create NAME`, or listen on 127.0.0.1"
        )
    listening = _listen(settings)
    connections = Connections(settings)
    push = Push(settings.home, _posted(settings), connections, Limits())
    app = application(settings, connections, push)
    config = uvicorn.Config(
        app,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=200,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=_GRACE,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="server", daemon=True)
    thread.start()
    address = "{}:{}".format(*listening.getsockname()[:2])
    _LOG.info("server listens", action="server_listens", address=address)
    forgotten = float("-inf")
    try:
        while not stop.wait(_BEAT) and thread.is_alive():
            role.beat(f"listening on {address}")
            if time.monotonic() - forgotten > _FORGET:
                forgotten = time.monotonic()
                with suppress(Unreachable, Refused):  # there is time
                    push.forget_keys()
    finally:
        server.should_exit = True
        thread.join(2 * _GRACE)  # a request that takes longer ends with the process
        role.end()


def _posted(settings: Settings) -> list[str]:
    return [name for name, stream in settings.streams.items() if isinstance(stream.source, HttpSource)]


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.server.host, settings.server.port
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise MoiraeError(f"cannot listen on {settings.server.listen}: {error.strerror}") from error


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
