"""Listens for syslog messages, in a thread with an event loop of its own.

Connections are read no faster than messages are written. Datagrams that come faster are dropped, by
this process or by the kernel, and counted.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from archiver.threads import start_daemon
from moirae.config import Settings, Syslog, SyslogSource
from moirae.errors import MoiraeError
from moirae.runtime.storage import Landings
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.syslog.batches import MessageBatches
from moirae.server.syslog.frames import FrameReader, clean
from sql.archive import SkippedRecordsGateway, SkippedRow

_LOG = structlog.get_logger()

_MAX_CONNECTIONS = 200  # of a stream
_MAX_MESSAGE_BYTES = 64 << 10
_READ_BYTES = 64 << 10
_RECEIVE_BUFFER = 4 << 20  # bytes of datagrams that the kernel keeps, if it may
_STOP_TIMEOUT = 10.0  # seconds
_DROPS_INTERVAL = 1.0  # seconds between looks at what the kernel has dropped
_KERNEL_TABLES = (Path("/proc/net/udp"), Path("/proc/net/udp6"))


class SyslogListeners:
    """All listeners of a workspace."""

    def __init__(
        self, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
    ) -> None:
        self._sources = {
            name: stream
            for name, stream in settings.streams.items()
            if isinstance(stream.source, SyslogSource)
        }
        self._landings = Landings.of(settings)
        self._pool = pool
        self._ingest_handler = ingest_handler
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._sockets: list[tuple[str, Syslog, str, socket.socket]] = []
        self.addresses: dict[str, list[str]] = {}
        """By stream, where it listens: `tcp://127.0.0.1:1514`."""

    def start(self) -> None:
        """Listen. Raises `MoiraeError` if an address cannot be used."""
        for name, stream in self._sources.items():
            assert isinstance(stream.source, SyslogSource)
            declared = stream.source.syslog
            for address in declared.addresses:
                opened = _open_socket(name, address.protocol, address.host, address.port)
                self._sockets.append((name, declared, address.protocol, opened))
                host, port = opened.getsockname()[:2]
                shown = f"[{host}]" if ":" in host else host
                listed = self.addresses.setdefault(name, [])
                listed.append(f"{address.protocol}://{shown}:{port}")
                _LOG.info(
                    "listening for syslog",
                    action="syslog_listens",
                    stream=name,
                    address=listed[-1],
                )
        if self._sockets:
            self._thread = start_daemon(self._run, "syslog")

    def is_running(self) -> bool:
        """Whether it listens, if it has to."""
        return self._thread is None or self._thread.is_alive()

    def stop(self) -> None:
        """Stop listening, and write what has come."""
        if self._thread is None:
            return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        batches = {
            name: MessageBatches(
                self._landings.open(name),
                stream,
                partial(self._ingest_handler.check_capacity, status=503),
                self._count_skipped,
            )
            for name, stream in self._sources.items()
        }
        tasks = [asyncio.create_task(batch.keep_writing()) for batch in batches.values()]
        servers: list[Any] = []
        for name, declared, protocol, opened in self._sockets:
            if protocol == "udp":
                endpoint = partial(_Datagrams, declared, batches[name])
                transport, _ = await self._loop.create_datagram_endpoint(endpoint, sock=opened)
                servers.append(transport)
                tasks.append(asyncio.create_task(_count_drops(opened, batches[name])))
                continue
            handler = _Connections(declared, batches[name])
            context = _make_context(declared) if protocol == "tls" else None
            server = await asyncio.start_server(handler.serve, sock=opened, ssl=context)
            servers.append(server)
        await self._stopping.wait()
        for server in servers:
            server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in batches.values():
            await batch.flush()

    def _count_skipped(self, skipped: Counter[tuple[str, str]]) -> None:
        with self._pool.connection() as connection:
            SkippedRecordsGateway(connection).add(
                SkippedRow(stream, reason, count) for (stream, reason), count in skipped.items()
            )


class _Connections:
    """The connections of one address."""

    def __init__(self, declared: Syslog, batches: MessageBatches) -> None:
        self._declared = declared
        self._batches = batches
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read messages until the connection ends."""
        peer = writer.get_extra_info("peername")[0]
        if self._count >= _MAX_CONNECTIONS or not _is_allowed(self._declared, peer):
            self._batches.skip("refused connections", 1)
            writer.close()
            return
        self._count += 1
        frames = FrameReader(_MAX_MESSAGE_BYTES)
        too_long = 0
        try:
            while data := await reader.read(_READ_BYTES):
                await self._add(frames.feed(data))
                self._batches.skip("too long", frames.too_long - too_long)
                too_long = frames.too_long
            await self._add(frames.finish())
        except OSError:  # the other side is gone; what was complete is taken
            pass
        finally:
            self._count -= 1
            writer.close()

    async def _add(self, messages: Sequence[bytes]) -> None:
        if messages:
            await self._batches.add(messages)


class _Datagrams(asyncio.DatagramProtocol):
    """The datagrams of one address; each is a message."""

    def __init__(self, declared: Syslog, batches: MessageBatches) -> None:
        self._declared = declared
        self._batches = batches

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if not _is_allowed(self._declared, addr[0]):
            self._batches.skip("refused datagrams", 1)
        elif message := clean(data):
            self._batches.offer(message)


async def _count_drops(opened: socket.socket, batches: MessageBatches) -> None:
    """Count what the kernel drops because it is not read fast enough."""
    inode = str(Path(f"/proc/self/fd/{opened.fileno()}").readlink())
    number = re.sub(r"\D", "", inode)
    counted = 0
    while True:
        dropped = await asyncio.to_thread(_read_drops, number)
        batches.skip("dropped datagrams", dropped - counted)
        counted = dropped
        await asyncio.sleep(_DROPS_INTERVAL)


def _read_drops(inode: str) -> int:
    """How many datagrams of a socket the kernel has dropped; 0 where it does not say."""
    for table in _KERNEL_TABLES:
        with suppress(OSError):
            for line in table.read_text().splitlines():
                fields = line.split()
                if len(fields) > 12 and fields[9] == inode:
                    return int(fields[-1])
    return 0


def _is_allowed(declared: Syslog, peer: str) -> bool:
    """Whether messages of an address are taken. Without `allow`, of this machine, or of whoever has
    a certificate.
    """
    address = ipaddress.ip_address(peer.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if not declared.networks:
        return address.is_loopback or declared.clients is not None
    return any(address in network for network in declared.networks)


def _make_context(declared: Syslog) -> ssl.SSLContext:
    assert declared.cert is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(declared.cert, declared.key)
    if declared.clients is not None:
        context.load_verify_locations(declared.clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _open_socket(stream: str, protocol: str, host: str, port: int) -> socket.socket:
    """A socket that is bound. Raises `MoiraeError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if protocol != "udp":
            return socket.create_server((host, port), family=family)
        opened = socket.socket(family, socket.SOCK_DGRAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        opened.setblocking(False)
        opened.bind((host, port))
    except OSError as error:
        raise MoiraeError(
            f"stream {stream} cannot listen on {protocol}://{host}:{port}: {error.strerror}: choose "
            "another address in its source"
        ) from error
    return opened
