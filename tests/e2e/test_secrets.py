"""No secret that `redact` names is in any file of the workspace, or in its database."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg import Connection, sql

from tests.broker import Broker
from tests.commands import Commands
from tests.served import Served, serve
from tests.topics import Topics, needs_broker

pytestmark = [needs_broker, pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(1500)]

SECRET = "key-z"  # what all of them begin with
TIME = "2026-11-20T10:00:00Z"
STREAM = """
  {name}:
    columns: {columns}
    time: ts
    redact:
    - {{column: note, pattern: '(?i)key-[0-9a-z]+'}}
    source: {source}
"""
ROWS = "{ts: timestamp, host: string, n: int, note: string}"
LINES = "{ts: timestamp, note: {type: string, from: message}}"
TEXT = r"format: text, pattern: '(?P<ts>\S+) (?P<message>.*)'"
SYSLOG = "{ts: {type: timestamp, from: time}, note: {type: string, from: message}}"
ACCESS = "{ts: {type: timestamp, from: time}, note: {type: string, from: path}}"
RULES = """
groups:
- name: g
  rules:
  - alert: Any
    expr: "SELECT ts, host, note, _extra AS extra FROM rows_posted"
    key: [host]
    context: {notes: {sql: "SELECT note FROM rows_posted WHERE host = event.host", within: 1h}}
    recall: {similar: {similar: {k: 3}}}
"""


def rows(start: str) -> bytes:
    """Rows with secrets in every place, and records that are refused for every reason."""
    ok = {"ts": TIME, "host": "a", "n": 1, "note": f"has {SECRET}{start}1"}
    records: list[Any] = [
        {**ok, "x": f"{SECRET}{start}2", f"{SECRET}{start}3": {"y": [f"{SECRET}{start}4"]}},
        {**ok, "host": "b", "note": {"inner": f"{SECRET}{start}5"}},
        {**ok, "n": f"{SECRET}{start}6"},
        {**ok, "n": {"deep": f"{SECRET}{start}7"}},
        {**ok, "ts": f"{SECRET}{start}8"},
        {**ok, "ts": "2999-01-01T00:00:00Z", "note": f"{SECRET}{start}9"},
        {**ok, "host": "c", "note": f"{SECRET}{start}a", "pad": "x" * (1 << 20)},
        [f"{SECRET}{start}b"],
        f"{SECRET}{start}c",
    ]
    lines = [orjson.dumps(record) for record in records]
    lines.append(f'{{"ts": "{TIME}", "note": "{SECRET}{start}d"'.encode())
    lines.append(f"{SECRET}{start}e".encode())
    lines.append(b'{"ts": "\\u006bey-z' + start.encode() + b'f", "note": 1')
    lines.append(b'{"ts": "x", "note": "\\u006bey-z' + start.encode() + b'0"}')
    lines.append(b"\xff\xfe " + f"{SECRET}{start}g".encode())
    return b"\n".join(lines) + b"\n"


def csv_rows(start: str) -> bytes:
    return (
        f"ts,host,n,note,more\n{TIME},a,1,{SECRET}{start}1,{SECRET}{start}2\n"
        f'{TIME},b,{SECRET}{start}3,"{SECRET}{start}4",x\n{TIME},{SECRET}{start}5\n'
        f'{TIME},c,1,"open {SECRET}{start}6,\n{SECRET}{start}7\n'
    ).encode()


def csv_without_header(start: str) -> bytes:
    """The first row is taken as header."""
    return f"{TIME},a,1,{SECRET}{start}1\n{TIME},b,1,{SECRET}{start}2\n".encode()


def parquet_rows(start: str) -> bytes:
    table = pa.table(
        {
            "ts": [TIME, TIME, f"{SECRET}{start}1"],
            "host": ["a", "b", "c"],
            "note": [f"{SECRET}{start}2", "x", "y"],
            "more": ["x", f"{SECRET}{start}3", "y"],
        }
    )
    target = io.BytesIO()
    pq.write_table(table, target)
    return target.getvalue()


def text_lines(start: str) -> bytes:
    return (
        f"{TIME} says {SECRET}{start}1\n{SECRET}{start}2\n{SECRET}{start}3 {SECRET}{start}4\n"
    ).encode()


def syslog_lines(start: str) -> bytes:
    return (
        f"<34>Nov 20 10:00:00 web-1 su[230]: failed {SECRET}{start}1\n"
        f'<165>1 {TIME} web-2 app 8710 ID47 [e@1 k="{SECRET}{start}2"] {SECRET}{start}3\n'
        f"{SECRET}{start}4\n"
    ).encode()


def access_lines(start: str) -> bytes:
    return (
        f'h - - [20/Nov/2026:10:00:00 +0000] "GET /?t={SECRET}{start}1 HTTP/1.1" 200 1 "-" '
        f'"{SECRET}{start}2"\nh - - [x] "{SECRET}{start}3\n'
    ).encode()


def documents(start: str) -> bytes:
    ok = {"ts": TIME, "host": "a", "note": f"{SECRET}{start}1", "x": f"{SECRET}{start}2"}
    head = {"owner": f"{SECRET}{start}3", "items": [ok, {**ok, "ts": f"{SECRET}{start}4"}, "x"]}
    return orjson.dumps(head) + f'\n{{"items": [{{"note": "{SECRET}{start}5"'.encode()


CONTENTS = {
    "rows": (ROWS, "format: jsonl", rows, "application/x-ndjson"),
    "table": (ROWS, "format: csv", csv_rows, "text/csv"),
    "headless": (ROWS, "format: csv", csv_without_header, "text/csv"),
    "parquet": (ROWS, "format: parquet", parquet_rows, None),
    "lines": (LINES, TEXT, text_lines, "text/plain"),
    "syslog": (SYSLOG, "format: syslog", syslog_lines, "text/plain"),
    "access": (ACCESS, "format: combined", access_lines, "text/plain"),
    "documents": (ROWS, "format: json, records: items, outer: [owner]", documents, "text/plain"),
}
"""By name: columns, options of the source, content, and the type of a posted body."""
GROWING = ("rows", "table", "headless", "lines", "syslog", "access")
TOPICS = ("rows", "lines", "syslog")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


def declare(servers: str, engine: str, inputs: Path) -> str:
    """A stream of each content for each kind of source."""
    streams: list[str] = []

    def add(name: str, columns: str, source: str) -> None:
        streams.append(STREAM.format(name=name, columns=columns, source=f"{{{source}}}"))

    for name, (columns, options, _, media_type) in CONTENTS.items():
        add(f"{name}_files", columns, f"files: '{inputs}/{name}.in', {options}")
        if media_type is not None:
            posted = options if media_type == "text/plain" else ""
            add(f"{name}_posted", columns, f"http: true, {posted}".rstrip(", "))
        if name in GROWING:
            add(f"{name}_growing", columns, f"files: '{inputs}/{name}.log', tail: true, {options}")
        if name in TOPICS:
            topic = f"kafka: {{servers: '{servers}', topic: {name}-{engine}}}"
            add(f"{name}_topic", columns, f"{topic}, {options}")
    head = f'home: .moirae\nserver: {{listen: "127.0.0.1:0"}}\nengine: {engine}\n'
    return f"{head}streams:{''.join(streams)}rules: [rules.yaml]\n"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_no_secret_is_in_the_workspace(broker: Broker, engine: str, tmp_path: Path) -> None:
    topics = Topics(broker)
    with serve(declare(broker.address, engine, tmp_path), RULES) as served:
        root = served.settings.file.parent
        number = 0
        for name, (_, _, content, media_type) in CONTENTS.items():
            for suffix in ("in", "log"):
                number += 1
                (tmp_path / f"{name}.{suffix}").write_bytes(content(f"{number}y"))
            if name in TOPICS:
                topics.create(f"{name}-{engine}")
                messages = content(f"{number}t").splitlines()
                topics.send(f"{name}-{engine}", [text for text in messages if len(text) < 1 << 19])
            if media_type is not None:
                _post(served, f"{name}_posted", content(f"{number}p"), media_type)
        with Commands(root) as commands:
            for name in CONTENTS:
                copied = commands.run("ingest", f"{name}_files", str(tmp_path / f"{name}.in"))
                assert SECRET not in copied.stdout + copied.stderr
            drained = commands.run("up", "--drain")
            assert drained.returncode == 0, drained.stderr
            printed = drained.stdout + drained.stderr
            for command in (["dead-letters", "list", "--limit", "1000"], ["query", QUERY]):
                printed += commands.run(*command).stdout
            assert SECRET not in printed
        found = sorted({*_search_files(root), *_search_database(served.connection)})
        letters = served.connection.execute("SELECT count(*) FROM dead_letters").fetchone()
        assert letters is not None and letters[0] > 50
    assert not found, "\n".join(found)


QUERY = "SELECT host, note, _extra FROM rows_posted"


def _post(served: Served, stream: str, content: bytes, media_type: str) -> None:
    answer = served.ask(
        "POST",
        f"/api/v1/ingest/{stream}",
        role="operator",
        content=content,
        headers={"Content-Type": media_type},
    )
    assert SECRET not in answer.text


def _search_files(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if not path.is_file() or "postgres" in path.parts:
            continue
        if SECRET.encode() in _read(path):
            yield str(path.relative_to(root))


def _read(path: Path) -> bytes:
    """The content, decompressed."""
    content = path.read_bytes()
    if content.startswith(b"PAR1"):
        return repr(pq.read_table(path).to_pylist()).encode()
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return content


def _search_database(connection: Connection[Any]) -> Iterator[str]:
    tables = connection.execute(
        "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT LIKE 'pg\\_%'"
    ).fetchall()
    for schema, table in tables:
        statement = sql.SQL("SELECT * FROM {}.{}").format(
            sql.Identifier(schema), sql.Identifier(table)
        )
        for row in connection.execute(statement):
            if SECRET in repr(row):
                yield f"{table}: {repr(row)[:300]}"
