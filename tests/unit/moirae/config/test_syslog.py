"""Where syslog messages are received, and from whom."""

from pathlib import Path

import pytest

from moirae.config import SyslogSource
from tests.unit.moirae.config.workspace_files import STREAM, load, load_problems


def _with(source: str) -> str:
    return STREAM.replace("{http: true}", "{syslog: {" + source + "}}")


@pytest.mark.parametrize(
    ("listen", "protocols"),
    [
        ('listen: "udp://127.0.0.1:514"', ["udp"]),
        ('listen: ["tcp://127.0.0.1:1", "udp://[::1]:65535"]', ["tcp", "udp"]),
        ('listen: "tcp://0.0.0.0:514", allow: [10.0.0.0/8]', ["tcp"]),
        ('listen: "tls://0.0.0.0:6514", cert: c, key: k, clients: ca', ["tls"]),
    ],
)
def test_addresses_are_read(tmp_path: Path, listen: str, protocols: list[str]) -> None:
    stream = load(tmp_path, _with(listen)).streams["cpu"]
    assert isinstance(stream.source, SyslogSource)
    assert [address.protocol for address in stream.source.syslog.addresses] == protocols
    assert (stream.identity, stream.source.record_format.name) == ("place", "syslog")


@pytest.mark.parametrize(
    "source",
    [
        "listen: []",
        'listen: "127.0.0.1:514"',
        'listen: "tcp://localhost:514"',
        'listen: "tcp://1.2.3.4.5:514"',
        'listen: "tcp://127.0.0.1:65536"',
        'listen: "tcp://0.0.0.0:514"',
        'listen: "udp://10.0.0.1:514"',
        'listen: "tls://127.0.0.1:6514"',
        'listen: "tcp://0.0.0.0:514", clients: ca',
        'listen: "tcp://127.0.0.1:514", allow: [x]',
    ],
)
def test_invalid_sources_are_refused(tmp_path: Path, source: str) -> None:
    (problem, *_) = load_problems(tmp_path, _with(source))
    assert "streams.cpu.source.syslog" in problem
