"""Inputs as operators have them, as a user declares them: from files, posted, and from topics."""

import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable

from tests.broker import Broker
from tests.commands import Commands
from tests.served import Served, serve
from tests.topics import Topics, needs_broker

pytestmark = [needs_broker, pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1500)]

TEN = "2026-11-20T10:00:00Z"
ALL = ("files", "posted", "topic")


class Case(NamedTuple):
    """`declared`: columns and other keys; `source`: keys beside where records come from.

    `rows`: without the time, which comes first, as `query` prints them. `refused`: dead letters.
    """

    declared: str
    source: str
    content: bytes
    rows: list[tuple[Any, ...]]
    refused: int = 0
    transports: tuple[str, ...] = ALL


CASES = {
    "ecs": Case(
        "columns: {ts: {type: timestamp, from: '@timestamp'}, host: {type: string, from: host.name},"
        " level: {type: string, from: log.level}}, time: ts",
        "format: jsonl",
        b'{"@timestamp":"2026-11-20T10:00:00Z","host.name":"a","log":{"level":"error"}}\n'
        b'{"@timestamp":"2026-11-20T10:00:01Z","host":{"name":"b"},"log.level":"warn"}\n',
        [(TEN, "a", "error"), ("2026-11-20T10:00:01Z", "b", "warn")],
    ),
    "k8s": Case(
        "columns: {ts: {type: timestamp, from: lastTimestamp}, reason: string,"
        " kind: {type: string, from: involvedObject.kind}}, time: ts",
        "format: json, records: items",
        b'{"kind":"List","items":[\n {"lastTimestamp":"2026-11-20T10:00:00Z","reason":"BackOff",'
        b'"involvedObject":{"kind":"Pod"}},\n {"lastTimestamp":"2026-11-20T10:00:05Z",'
        b'"reason":"Unhealthy","involvedObject":{"kind":"Pod"}}\n]}\n',
        [(TEN, "BackOff", "Pod"), ("2026-11-20T10:00:05Z", "Unhealthy", "Pod")],
        transports=("files", "posted"),
    ),
    "array": Case(
        "columns: {ts: timestamp, k: string}, time: ts",
        "format: json",
        b'[{"ts":"2026-11-20T10:00:00Z","k":"a"},{"ts":"2026-11-20T10:00:01Z","k":"b"}]',
        [(TEN, "a"), ("2026-11-20T10:00:01Z", "b")],
        transports=("files", "posted"),
    ),
    "nan": Case(
        "columns: {ts: timestamp, v: double}, time: ts",
        "format: jsonl",
        b'{"ts":"2026-11-20T10:00:00Z","v":NaN}\n{"ts":"2026-11-20T10:00:01Z","v":-Infinity}\n',
        [(TEN, "nan"), ("2026-11-20T10:00:01Z", "-inf")],
    ),
    "epoch": Case(
        "columns: {ts: timestamp, k: string}, time: {column: ts, unit: ms}",
        "format: jsonl",
        b'{"ts":1795168800123,"k":"ms"}\n{"ts":"1795168800124","k":"ms as text"}\n',
        [("2026-11-20T10:00:00.123000Z", "ms"), ("2026-11-20T10:00:00.124000Z", "ms as text")],
    ),
    "comma": Case(
        "columns: {ts: timestamp}, time: {column: ts, zone: Europe/Ljubljana}",
        "format: jsonl",
        b'{"ts":"2026-07-12 10:58:48,607"}\n',
        [("2026-07-12T08:58:48.607000Z",)],
    ),
    "offsets": Case(
        "columns: {ts: timestamp, n: int}, time: ts",
        "format: jsonl",
        b'{"ts":"2026-11-20T10:00:00+2","n":1}\n{"ts":"2026-11-20T10:00:00 UTC+2:00","n":2}\n'
        b'{"ts":"2026-11-20T10:00:00.5+0200","n":3}\n',
        [
            ("2026-11-20T08:00:00Z", 1),
            ("2026-11-20T08:00:00Z", 2),
            ("2026-11-20T08:00:00.500000Z", 3),
        ],
    ),
    "dst": Case(
        "columns: {ts: timestamp}, time: {column: ts, zone: Europe/Rome}",
        "format: jsonl",
        b'{"ts":"2026-03-29 02:30:00"}\n{"ts":"2026-10-25 02:30:00"}\n',
        [("2026-10-25T00:30:00Z",)],
        refused=1,
    ),
    "newline": Case(
        "columns: {ts: timestamp, host: string, msg: string}, time: ts",
        "format: csv",
        b'\xef\xbb\xbf"ts","host","msg"\r\n"2026-11-20T10:00:00Z","a","hello, ""x"""\r\n'
        b'"2026-11-20T10:00:01Z","b","two\nlines"\r\n',
        [(TEN, "a", 'hello, "x"'), ("2026-11-20T10:00:01Z", "b", "two\nlines")],
        transports=("files", "posted"),
    ),
    "semicolon": Case(
        "columns: {ts: timestamp, host: string, v: double}, time: ts",
        "format: csv, csv: {delimiter: ';', comment: '#'}",
        b"# export\nts;host;v\n2026-11-20T10:00:00Z;a;1.5\n",
        [(TEN, "a", 1.5)],
        transports=("files", "posted"),
    ),
    "combined": Case(
        "columns: {ts: {type: timestamp, from: time}, path: string, status: int}, time: ts",
        "format: combined",
        b'203.0.113.9 - - [20/Nov/2026:10:00:00 +0100] "GET /x?y=\\"1\\" HTTP/1.1" 500 1234 "-" '
        b'"curl/8"\nnot a log line\n',
        [("2026-11-20T09:00:00Z", '/x?y=\\"1\\"', 500)],
        refused=1,
    ),
    "syslog": Case(
        "columns: {ts: {type: timestamp, from: time}, host: string, pid: int,"
        " structured_data: string}, time: ts",
        "format: syslog",
        b"<34>Nov 20 10:00:00 web-1 su[230]: failed\n"
        b'<165>1 2026-11-20T10:00:01.003Z web-2 app 8710 ID47 [e@1 k="v"] started\n',
        [(TEN, "web-1", 230, None), ("2026-11-20T10:00:01.003000Z", "web-2", 8710, '[e@1 k="v"]')],
    ),
    "trace": Case(
        "columns: {ts: {type: timestamp, from: time}, level: string, message: string}, time: ts",
        "format: text, pattern: '(?P<time>\\S+ \\S+) (?P<level>\\w+) (?P<message>.*)',"
        " starts_with: '[0-9]{4}-'",
        b'2026-11-20 10:00:00 ERROR boom\nTraceback:\n  File "x"\n2026-11-20 10:00:01 INFO fine\n',
        [(TEN, "ERROR", 'boom\nTraceback:\n  File "x"'), ("2026-11-20T10:00:01Z", "INFO", "fine")],
        transports=("files", "posted"),
    ),
    "utf16": Case(
        "columns: {ts: timestamp, k: string}, time: ts",
        "format: jsonl",
        '{"ts":"2026-11-20T10:00:00Z","k":"é"}'.encode("utf-16"),
        [(TEN, "é")],
        transports=("files", "posted"),
    ),
}
RULES = """
groups:
- name: g
  rules:
  - {alert: Any, expr: "SELECT * FROM ecs_files WHERE level = 'none'", key: [host]}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


def declare(servers: str, engine: str) -> str:
    """A stream for each case and transport."""
    streams: list[str] = []
    for name, case in CASES.items():
        inputs = {
            "files": f"files: 'in/{name}.log'",
            "posted": "http: true",
            "topic": f"kafka: {{servers: '{servers}', topic: {name}-{engine}}}",
        }
        for transport in case.transports:
            source = f"source: {{{inputs[transport]}, {case.source}}}"
            streams.append(f"  {name}_{transport}: {{{case.declared}, {source}}}\n")
    listen = 'server: {listen: "127.0.0.1:0"}'
    return (
        f"home: .moirae\n{listen}\nengine: {engine}\nstreams:\n{''.join(streams)}"
        "rules: [rules.yaml]\n"
    )


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_each_input_has_its_rows_however_it_comes(broker: Broker, engine: str) -> None:
    topics = Topics(broker)
    with serve(declare(broker.address, engine), RULES) as served:
        root = served.settings.file.parent
        (root / "in").mkdir()
        for name, case in CASES.items():
            (root / "in" / f"{name}.log").write_bytes(case.content)
            answer = served.ask(
                "POST",
                f"/api/v1/ingest/{name}_posted",
                role="operator",
                content=case.content,
                headers={"Content-Type": "text/plain"},
            )
            assert answer.status_code == 202, (name, answer.text)
            if "topic" in case.transports:
                topics.create(f"{name}-{engine}")
                topics.send(f"{name}-{engine}", case.content.splitlines())
        with Commands(root) as commands:
            drained = commands.run("up", "--drain")
            assert drained.returncode == 0, drained.stderr
            failures = list(_compare(served))
    assert not failures, "\n".join(failures)


def _compare(served: Served) -> Iterator[str]:
    """What differs from the cases, all of them at once."""
    counts = served.connection.execute(
        "SELECT stream, sum(malformed)::int FROM units GROUP BY stream"
    )
    refused: dict[str, int] = dict(counts.fetchall())
    for name, case in CASES.items():
        for transport in case.transports:
            stream = f"{name}_{transport}"
            values = sorted(_read(served, stream), key=repr)
            expected = sorted(case.rows, key=repr)
            if values != expected:
                yield f"{stream}: {values} instead of {expected}"
            if refused.get(stream) != case.refused:
                yield f"{stream}: {refused.get(stream)} dead letters"


def _read(served: Served, stream: str) -> list[tuple[Any, ...]]:
    """The declared columns, with times and special numbers as texts."""
    declared = served.settings.streams[stream]
    table = DeltaTable(str(Path(served.settings.archive) / "streams" / stream))
    rows = table.to_pyarrow_table(columns=list(declared.columns)).to_pylist()
    return [tuple(map(_to_text, row.values())) for row in rows]


def _to_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
