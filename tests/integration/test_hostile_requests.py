"""Requests of the protocols that are made to do harm: the server refuses them, keeps little memory and
goes on to serve. Each is sent by eight clients at once.
"""

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple

import httpx
import orjson
import psutil
import pyarrow as pa
import pytest

from archiver.threads import start_daemon
from moirae.server.protocols.loki import _load_messages as load_loki_messages
from moirae.server.protocols.write_messages import load_messages, load_messages_2
from tests.served import Served, serve

pytestmark = [pytest.mark.services, pytest.mark.slow]

_CLIENTS = 8
_MAX_GROWTH = 3 << 29  # bytes of memory
_LARGE = 100_000_000  # bytes
_ALLOWED = {200, 202, 204, 400, 408, 413, 415, 503}
_WORKSPACE = """
server: {listen: "127.0.0.1:0"}
streams:
  posted: {columns: {ts: timestamp, a: string}, time: ts, source: {http: true}}
  samples:
    columns: {ts: timestamp, metric: string, value: double}
    time: ts
    source: {remote_write: true, match: '{__name__!="left_out"}'}
  records: {columns: {ts: timestamp, body: string}, time: ts, source: {otlp: logs}}
  points: {columns: {ts: timestamp, value: double}, time: ts, source: {otlp: metrics}}
  entries: {columns: {ts: timestamp, line: string}, time: ts, source: {loki: true}}
"""
_JSON = {"Content-Type": "application/json"}
_PROTOBUF = {"Content-Type": "application/x-protobuf"}
_GZIP = {"Content-Encoding": "gzip"}
_SNAPPY = {**_PROTOBUF, "Content-Encoding": "snappy"}
_V2 = {
    "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request",
    "Content-Encoding": "snappy",
}
_LINES = {"Content-Type": "application/x-ndjson"}
_PATHS = {
    "ingest": ("/api/v1/ingest/posted", _LINES),
    "alerts": ("/api/v2/alerts", _JSON),
    "remote write": ("/api/v1/write", _SNAPPY),
    "remote write 2": ("/api/v1/write", _V2),
    "logs": ("/v1/logs", _JSON),
    "binary logs": ("/v1/logs", _PROTOBUF),
    "metrics": ("/v1/metrics", _JSON),
    "loki": ("/loki/api/v1/push", _JSON),
    "binary loki": ("/loki/api/v1/push", _PROTOBUF),
}


class _Attack(NamedTuple):
    """A body and the headers that it has besides those of its protocol."""

    protocol: str
    make: Callable[[], bytes]
    headers: dict[str, str] = {}


def _snappy(content: bytes) -> bytes:
    compressed: bytes = pa.Codec("snappy").compress(content, asbytes=True)
    return compressed


def _write_series(labels: list[tuple[str, str]], samples: int) -> bytes:
    series = load_messages().series()
    for name, value in labels:
        series.labels.add(name=name, value=value)
    for number in range(samples):
        series.samples.add(value=1.5, timestamp=number + 1)
    content: bytes = series.SerializeToString()
    return content


def _write_request(*series: bytes) -> bytes:
    return _snappy(load_messages().request(timeseries=series).SerializeToString())


def _write_request_2(symbols: list[bytes], references: list[int], series: int) -> bytes:
    messages = load_messages_2()
    content = messages.series(labels_refs=references).SerializeToString()
    request = messages.request(symbols=symbols, timeseries=[content] * series)
    return _snappy(request.SerializeToString())


def _resource_logs(resource_bytes: int, records: int) -> bytes:
    text = {"key": "x", "value": {"stringValue": "x" * resource_bytes}}
    scope = {"logRecords": [{"timeUnixNano": "1"}] * records}
    return orjson.dumps(
        {"resourceLogs": [{"resource": {"attributes": [text]}, "scopeLogs": [scope]}]}
    )


def _loki_stream(labels: str, entries: int) -> bytes:
    messages, _ = load_loki_messages()
    entry = messages["Entry"](line="a")
    entry.timestamp.seconds = 1
    stream = messages["Stream"](labels=labels, entries=[entry.SerializeToString()] * entries)
    request = messages["PushRequest"](streams=[stream.SerializeToString()])
    return _snappy(request.SerializeToString())


def _million_labels() -> bytes:
    return b"{%b}" % b",".join(b'"l%d":"x"' % number for number in range(500_000))


_BOMB = b"\0" * _LARGE
_ATTACKS = {
    # Bodies that are small until they are decompressed.
    "zstd bomb": _Attack(
        "ingest",
        lambda: pa.Codec("zstd").compress(_BOMB, asbytes=True),
        {"Content-Encoding": "zstd"},
    ),
    "gzip bomb": _Attack("ingest", lambda: gzip.compress(_BOMB), _GZIP),
    "gzip bomb of records": _Attack("logs", lambda: gzip.compress(_BOMB), _GZIP),
    "gzip bomb of points": _Attack("metrics", lambda: gzip.compress(_BOMB), _GZIP),
    "gzip bomb of entries": _Attack("loki", lambda: gzip.compress(_BOMB), _GZIP),
    "gzip bomb in many members": _Attack("logs", lambda: gzip.compress(b"") * 300_000, _GZIP),
    "snappy bomb": _Attack("remote write", lambda: _snappy(_BOMB)),
    "snappy bomb of 2.0": _Attack("remote write 2", lambda: _snappy(_BOMB)),
    "snappy bomb of entries": _Attack("binary loki", lambda: _snappy(_BOMB)),
    "snappy block that claims 4 GB": _Attack(
        "remote write", lambda: b"\xff\xff\xff\xff\x0f" + b"\0" * 100
    ),
    # Rows that repeat what the request says once.
    "large label, many samples": _Attack(
        "remote write",
        lambda: _write_request(_write_series([("__name__", "a"), ("x", "x" * 400_000)], 30_000)),
    ),
    "large label of a series that no stream takes": _Attack(
        "remote write",
        lambda: _write_request(
            _write_series([("__name__", "left_out"), ("x", "x" * 400_000)], 30_000)
        ),
    ),
    "symbols without end": _Attack(
        "remote write 2", lambda: _write_request_2([b"a", b"x" * (6 << 20)], [0, 1] * 200, 5_000)
    ),
    "symbol that all series share": _Attack(
        "remote write 2", lambda: _write_request_2([b"a", b"x" * 60_000], [0, 1], 40_000)
    ),
    "large resource": _Attack("logs", lambda: _resource_logs(2 << 20, 90_000)),
    "large labels of a stream": _Attack(
        "loki",
        lambda: orjson.dumps(
            {"streams": [{"stream": {"a": "x" * 16_000}, "values": [["1", "a"]] * 90_000}]}
        ),
    ),
    "large labels of a binary stream": _Attack(
        "binary loki", lambda: _loki_stream('{a="%s"}' % ("x" * 16_000), 90_000)
    ),
    # Very many of something.
    "a million labels of an alert": _Attack(
        "alerts", lambda: b'[{"labels":%b}]' % _million_labels()
    ),
    "a million labels of a stream": _Attack(
        "loki", lambda: b'{"streams":[{"stream":%b,"values":[["1","a"]]}]}' % _million_labels()
    ),
    "a million labels of a series": _Attack(
        "remote write",
        lambda: _write_request(_write_series([("a", "b")] * 800_000, 1)),
    ),
    "a million attributes": _Attack(
        "logs",
        lambda: gzip.compress(
            b'{"resourceLogs":[{"resource":{"attributes":[%b]},"scopeLogs":[]}]}'
            % b",".join([b'{"key":"a"}'] * 1_000_000)
        ),
        _GZIP,
    ),
    "a million empty alerts": _Attack("alerts", lambda: b"[%b]" % b",".join([b"{}"] * 2_700_000)),
    "millions of empty resources": _Attack(
        "logs",
        lambda: gzip.compress(b'{"resourceLogs":[%b]}' % b",".join([b"{}"] * 5_000_000)),
        _GZIP,
    ),
    "millions of small streams": _Attack(
        "loki",
        lambda: gzip.compress(b'{"streams":[%b]}' % b",".join([b'{"":0}'] * 2_300_000)),
        _GZIP,
    ),
    "millions of empty binary resources": _Attack("binary logs", lambda: b"\x0a\x00" * 4_000_000),
    "millions of empty series": _Attack("remote write", lambda: _snappy(b"\x0a\x00" * 8_000_000)),
    "millions of empty symbols": _Attack(
        "remote write 2", lambda: _snappy(b"\x22\x00" * 8_000_000)
    ),
    "millions of empty streams": _Attack("binary loki", lambda: _snappy(b"\x0a\x00" * 8_000_000)),
    # Depth, wrong types, and ends that are missing.
    **{
        f"nested {protocol}": _Attack(protocol, lambda: b"[" * (7 << 20))
        for protocol in ("alerts", "logs", "metrics", "loki", "ingest")
    },
    **{
        f"{text[:12]!r} for {protocol}": _Attack(protocol, lambda text=text: text)  # type: ignore[misc]
        for protocol in _PATHS
        for text in (
            b"",
            b"\0",
            b"null",
            b'"a"',
            b"{}",
            b'{"streams":{"a":1},"resourceLogs":7,"alerts":[[]]}',
            b'{"streams":[7],"resourceMetrics":[7],"resourceLogs":[[]],"alerts":[7]}',
            b'[{"labels":{"a":"b"},"startsAt":"2026-01-01T00:00:00Z"',
            b"\x0a\xff\xff\xff\xff\x0f",
            b"\xff" * 1_000,
        )
    },
}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(_WORKSPACE, "groups: []\n") as running:
        yield running


class _Memory:
    """The most memory that a process took."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.peak = 0

    def watch(self, until: threading.Event) -> None:
        while not until.wait(0.01):
            with suppress(psutil.Error):
                self.peak = max(self.peak, self._process.memory_info().rss)


@contextmanager
def _watched(process: psutil.Process) -> Iterator[_Memory]:
    memory, ended = _Memory(process), threading.Event()
    watcher = start_daemon(lambda: memory.watch(ended), "memory")
    try:
        yield memory
    finally:
        ended.set()
        watcher.join()


@cache
def _start_memory(process: psutil.Process) -> int:
    """The memory of the server before the first attack."""
    size: int = process.memory_info().rss
    return size


def _send(served: Served, attack: _Attack, body: bytes) -> int:
    path, headers = _PATHS[attack.protocol]
    answer = httpx.post(
        served.url + path,
        headers={
            **headers,
            **attack.headers,
            "Authorization": f"Bearer {served.tokens['source']}",
        },
        content=body,
        timeout=180,
    )
    return answer.status_code


@pytest.mark.parametrize("name", _ATTACKS)
def test_server_survives(served: Served, name: str) -> None:
    attack = _ATTACKS[name]
    body = attack.make()
    assert len(body) <= 8 << 20 or attack.protocol == "alerts"
    start = _start_memory(served.process)
    with _watched(served.process) as memory, ThreadPoolExecutor(_CLIENTS) as clients:
        statuses = set(clients.map(lambda _: _send(served, attack, body), range(_CLIENTS)))
    assert statuses <= _ALLOWED
    growth = memory.peak - start
    print(f"{name}: {sorted(statuses)}, memory +{growth >> 20} MiB", flush=True)
    assert growth < _MAX_GROWTH
    answer = served.ask("POST", "/api/v2/alerts", "source", json=[{"labels": {"alertname": "ok"}}])
    assert answer.status_code == 200


@pytest.mark.parametrize("is_chunked", [True, False])
@pytest.mark.parametrize("protocol", _PATHS)
def test_body_of_100_megabytes_is_refused(served: Served, protocol: str, is_chunked: bool) -> None:
    """Its end is not waited for."""
    path, headers = _PATHS[protocol]
    host = served.url.removeprefix("http://")
    address, _, port = host.partition(":")
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {_LARGE}"
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {served.tokens['source']}",
        *(f"{name}: {value}" for name, value in headers.items()),
        length,
    ]
    start = _start_memory(served.process)
    part = b"x" * (1 << 20)
    chunk = b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part
    with (
        _watched(served.process) as memory,
        socket.create_connection((address, int(port)), timeout=60) as connection,
    ):
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        with suppress(OSError):  # the server closes the connection
            for _ in range(_LARGE // len(part)):
                connection.sendall(chunk)
        answer = b""
        with suppress(OSError):  # what was sent too much may cost the answer
            answer = connection.recv(1_000)
    assert not answer or answer.split()[1] == b"413"
    assert memory.peak - start < _MAX_GROWTH
