"""Messages over TCP, TLS and UDP become batches; what cannot be taken is counted."""

import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moirae.errors import MoiraeError, RequestRejected
from moirae.runtime.storage.landing_folder import LandingFolder
from moirae.server.syslog import SyslogListeners, batches, listeners
from tests.certificates import make_certificate
from tests.unit.moirae.config.workspace_files import load
from tests.waiting import wait_until

_WORKSPACE = """
home: home
streams:
  devices:
    columns: {{ts: {{type: timestamp, from: time}}, message: string}}
    time: ts
    source: {{syslog: {{{source}}}}}
"""


class _Running:
    """Listeners, and what they have stored and counted."""

    def __init__(self, folder: Path, source: str) -> None:
        settings = load(folder, _WORKSPACE.format(source=source))
        self.is_full = False
        self.skipped: Counter[tuple[str, str]] = Counter()
        handler = SimpleNamespace(check_capacity=self._check_capacity)
        self.listeners = SyslogListeners(settings, cast(Any, None), cast(Any, handler))
        setattr(self.listeners, "_count_skipped", self.skipped.update)  # noqa: B010
        self._landing = LandingFolder(Path(settings.home), "devices")

    def _check_capacity(self, _: LandingFolder, status: int) -> None:
        if self.is_full:
            raise RequestRejected(status, "too much waits")

    def find_address(self, number: int = 0) -> tuple[str, int]:
        host, _, port = self.listeners.addresses["devices"][number].rpartition(":")
        return host.partition("://")[2], int(port)

    def read(self) -> list[bytes]:
        return [
            line
            for batch in self._landing.pending_batches()
            for line in batch.path.read_bytes().splitlines()
        ]

    def has(self, *messages: bytes) -> Callable[[], bool]:
        return lambda: sorted(self.read()) == sorted(messages)


@contextmanager
def _listening(folder: Path, source: str) -> Iterator[_Running]:
    running = _Running(folder, source)
    running.listeners.start()
    try:
        yield running
    finally:
        running.listeners.stop()


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FLUSH_INTERVAL", 0.02)


def test_messages_over_tcp_and_udp_are_stored(tmp_path: Path) -> None:
    source = 'listen: ["tcp://127.0.0.1:0", "udp://127.0.0.1:0"]'
    with _listening(tmp_path, source) as running:
        with socket.create_connection(running.find_address(0)) as connection:
            connection.sendall(b"5 <1>ab<2>line\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"<3>one\nmessage\n", running.find_address(1))
        wait_until(running.has(b"<1>ab", b"<2>line", b"<3>one#012message"))
        (batch, *_) = running._landing.pending_batches()
        assert batch.path.suffix == ".syslog"
    assert not running.skipped


def test_messages_over_tls_need_a_certificate_of_the_client(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    source = 'listen: "tls://127.0.0.1:0", cert: cert.pem, key: key.pem, clients: cert.pem'
    with _listening(tmp_path, source) as running:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        address = running.find_address()
        with (
            suppress(OSError),  # by when it comes
            socket.create_connection(address, timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as refused,
        ):
            refused.sendall(b"5 <1>no")
            assert refused.recv(1) == b""
        context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
        with (
            socket.create_connection(address, timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as accepted,
        ):
            accepted.sendall(b"5 <1>ab")
            wait_until(running.has(b"<1>ab"))


def test_other_networks_are_refused_and_counted(tmp_path: Path) -> None:
    source = 'listen: ["tcp://127.0.0.1:0", "udp://127.0.0.1:0"], allow: [10.0.0.0/8]'
    with _listening(tmp_path, source) as running:
        with socket.create_connection(running.find_address(0)) as connection:
            assert connection.recv(1) == b""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"<3>x", running.find_address(1))
        expected = {"refused connections", "refused datagrams"}
        wait_until(lambda: {reason for _, reason in running.skipped} == expected)
    assert running.read() == []


def test_long_messages_and_too_many_connections_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "_MAX_CONNECTIONS", 1)
    with _listening(tmp_path, 'listen: "tcp://127.0.0.1:0"') as running:
        address = running.find_address()
        with socket.create_connection(address) as first:
            first.sendall(b"<1>" + b"x" * 70_000 + b"\n<1>a\n")
            wait_until(running.has(b"<1>a"))
            with socket.create_connection(address) as second:
                assert second.recv(1) == b""
        wait_until(lambda: running.skipped.total() == 2)
    assert running.skipped == {("devices", "too long"): 1, ("devices", "refused connections"): 1}


def test_connections_wait_and_datagrams_are_dropped_while_the_archive_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MAX_PENDING_BYTES", 1_000)
    source = 'listen: ["tcp://127.0.0.1:0", "udp://127.0.0.1:0"]'
    with _listening(tmp_path, source) as running:
        running.is_full = True
        lines = [b"<1>%04d" % number for number in range(2_000)]
        with socket.create_connection(running.find_address(0)) as connection:
            connection.sendall(b"\n".join(lines) + b"\n")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(50):
                    sender.sendto(b"<3>x", running.find_address(1))
            assert running.read() == []
            running.is_full = False
            wait_until(lambda: {*lines} <= {*running.read()})
        wait_until(lambda: running.read().count(b"<3>x") + running.skipped.total() == 50)
    assert running.read().count(lines[0]) == 1


def test_messages_that_have_come_are_written_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "FLUSH_INTERVAL", 60.0)
    with _listening(tmp_path, 'listen: "udp://127.0.0.1:0"') as running:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"<3>last", running.find_address())
        loop = running.listeners._loop
        wait_until(loop.is_running)
        wait_until(lambda: _is_read(running))
    assert running.read() == [b"<3>last"]


def _is_read(running: _Running) -> bool:
    """Whether the kernel holds no datagram any more."""
    (_, _, _, opened) = running.listeners._sockets[0]
    try:
        return not opened.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True


def test_address_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        source = f'listen: "tcp://127.0.0.1:{taken.getsockname()[1]}"'
        with pytest.raises(MoiraeError, match="stream devices cannot listen"):
            _Running(tmp_path, source).listeners.start()
