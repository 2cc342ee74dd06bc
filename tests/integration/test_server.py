"""The running server: access, accepted rows, and durability of acknowledged rows."""

import asyncio
import gzip
import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

import sql
from archiver.formats import JSONL
from moirae.errors import RequestRejected, Unreachable
from moirae.runtime import database
from moirae.server.app import create_application
from moirae.server.ingest import IngestHandler, IngestLimits
from moirae.server.pool import ConnectionPool
from moirae.services import tokens
from sql.access import TokenGateway
from sql.processes import ProcessGateway
from tests.bad_inputs import FILES, read
from tests.served import JSON, LINES, Served, serve
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
server: {listen: "127.0.0.1:0"}
streams:
  cpu:
    columns: {ts: timestamp, host: string, cpu: double}
    time: ts
    id: [host]
    key: [host]
    source: {http: true}
    punctuation: closed
  files:
    columns: {ts: timestamp}
    time: ts
    source: {files: landing/*.jsonl}
rules: [rules.yaml]
"""
RULES = "groups: [{name: g, rules: [{alert: High, expr: 'SELECT host, ts, cpu FROM cpu WHERE cpu > 90'}]}]\n"
ROW = '{"ts": "2026-01-01T00:00:00Z", "host": "a", "cpu": 1.5}'


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        yield running


@pytest.fixture(autouse=True)
def _empty(request: pytest.FixtureRequest) -> None:
    if "served" in request.fixturenames:
        request.getfixturevalue("served").clear()


# What is accepted


def test_acknowledged_batch_is_on_disk_as_posted(served: Served) -> None:
    lines = f"{ROW}\n\n{{broken\n{ROW}"
    answer = served.post(lines)
    assert answer.status_code == 202
    reply = answer.json()
    assert reply == {"stream": "cpu", "batch": reply["batch"], "rows": 3}
    assert served.landed() == {reply["batch"]: lines.encode()}


@pytest.mark.parametrize(
    ("content", "kind", "rows", "kept"),
    [
        (
            f"[{ROW}, {ROW}, 5]",
            "application/json",
            3,
            b'{"ts":"2026-01-01T00:00:00Z","host":"a","cpu":1.5}\n' * 2 + b"5\n",
        ),
        ('{\n "host":\n "a"}', "application/json; charset=utf-8", 1, b'{"host":"a"}\n'),
        ("ts,host,cpu\n2026-01-01,a,1\n", "text/csv", 1, b"ts,host,cpu\n2026-01-01,a,1\n"),
        (ROW, "application/jsonl", 1, ROW.encode()),
    ],
)
def test_rows_of_each_content_type_are_accepted_plain_or_gzipped(
    served: Served, content: str, kind: str, rows: int, kept: bytes
) -> None:
    for packed in (False, True):
        served.clear()
        body = gzip.compress(content.encode()) if packed else content.encode()
        answer = served.post(
            body, {"Content-Type": kind, **({"Content-Encoding": "gzip"} if packed else {})}
        )
        assert (answer.status_code, answer.json()["rows"]) == (202, rows)
        assert list(served.landed().values()) == [kept]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (ROW, {}, 415),
        (ROW, {"Content-Type": "application/xml"}, 415),
        (ROW, {**JSON, "Content-Encoding": "br"}, 415),
        (b"\x1f\x8bnot gzip", {**JSON, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(ROW.encode(), mtime=0)[:-9], {**JSON, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"", mtime=0) * 65, {**JSON, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b" " * (17 << 20), mtime=0), {**LINES, "Content-Encoding": "gzip"}, 413),
        (b"\n" + b"1\n" * 100_001, LINES, 413),
        ("", LINES, 400),
        ("\n \n", LINES, 400),
        ("[]", JSON, 400),
        ("[" * 100_000, JSON, 400),
        ('{"a": ', JSON, 400),
        ("ts,host,cpu\n", {"Content-Type": "text/csv"}, 400),
        (ROW, {**JSON, "Idempotency-Key": "k" * 129}, 400),
        (ROW, {**JSON, "Idempotency-Key": "a b"}, 400),
    ],
)
def test_rejected_batch_leaves_no_file(
    served: Served, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = served.post(content, headers)
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert list((served.settings.home / "landing" / "cpu").glob("*")) == []


@pytest.mark.parametrize("stream", ["none", "files", "..%2fcpu", "cpu%00"])
def test_only_http_streams_accept_posts(served: Served, stream: str) -> None:
    assert (
        served.ask("POST", f"/api/v1/ingest/{stream}", headers=LINES, content=ROW).status_code
        == 404
    )


def test_closed_time_is_a_batch_of_its_own_after_the_rows_before(served: Served) -> None:
    assert served.post(ROW).status_code == 202
    path = "/api/v1/streams/cpu/watermark"
    answer = served.ask("POST", path, headers=JSON, content='{"time": "2026-01-01T00:05:00Z"}')
    assert (answer.status_code, answer.json()["stream"]) == (202, "cpu")
    assert len(served.landed()) == 2
    (file,) = (served.settings.home / "landing" / "cpu").glob(f"{answer.json()['batch']}*")
    assert file.read_bytes() == b'{"closed":"2026-01-01T00:05:00Z"}\n'


def test_time_is_closed_for_one_key(served: Served) -> None:
    path = "/api/v1/streams/cpu/watermark"
    content = '{"time": "2026-01-01T00:05:00Z", "key": {"host": "a"}}'
    answer = served.ask("POST", path, headers=JSON, content=content)
    assert answer.status_code == 202, answer.json()
    (file,) = (served.settings.home / "landing" / "cpu").glob(f"{answer.json()['batch']}*")
    assert file.read_bytes() == b'{"host":"a","closed":"2026-01-01T00:05:00Z"}\n'


@pytest.mark.parametrize(
    ("stream", "content", "status", "detail"),
    [
        ("files", '{"time": "2026-01-01T00:05:00Z"}', 404, "declares punctuation"),
        ("cpu", '{"time": "soon"}', 400, "is not a timestamp"),
        ("cpu", '{"time": "2999-01-01T00:00:00Z"}', 400, "in the future"),
        ("cpu", "{}", 400, ""),
        ("cpu", '{"time": 1, "host": "a"}', 400, ""),
        ("cpu", '{"time": 1, "key": {"v": 1}}', 400, "or, for one key"),
        ("cpu", '{"time": 1, "key": {"host": {}}}', 400, ""),
        ("cpu", '{"time": 1, "key": {"closed": "a"}}', 400, "key: closed is no field of the key"),
    ],
)
def test_other_times_are_not_closed(
    served: Served, stream: str, content: str, status: int, detail: str
) -> None:
    path = f"/api/v1/streams/{stream}/watermark"
    answer = served.ask("POST", path, headers=JSON, content=content)
    assert answer.status_code == status
    assert detail in answer.json()["detail"]
    assert served.landed() == {}


def test_repeated_idempotency_key_is_the_same_batch(served: Served) -> None:
    first = served.post(ROW, add={"Idempotency-Key": "one"})
    again = served.post(
        gzip.compress(ROW.encode()), add={"Idempotency-Key": "one", "Content-Encoding": "gzip"}
    )
    assert (again.status_code, again.content) == (202, first.content)
    assert len(served.landed()) == 1
    other = served.post(ROW.replace("1.5", "2"), add={"Idempotency-Key": "one"})
    assert other.status_code == 409
    assert len(served.landed()) == 1


def test_archived_batch_is_not_accepted_again_under_its_key(served: Served) -> None:
    batch = served.post(ROW, add={"Idempotency-Key": "two"}).json()["batch"]
    served.connection.execute(
        "INSERT INTO units (stream, unit, done) VALUES ('cpu', %s, true)", (batch,)
    )
    served.clear()
    assert served.post(ROW, add={"Idempotency-Key": "two"}).json()["batch"] == batch
    assert served.landed() == {}


def test_batch_that_failed_to_sync_is_accepted_on_retry(served: Served) -> None:
    batch = served.post(ROW, add={"Idempotency-Key": "three"}).json()["batch"]
    served.clear()  # as after a crash between the key and the file
    assert served.post(ROW, add={"Idempotency-Key": "three"}).status_code == 202
    assert list(served.landed()) == [batch]


# Who may ask


def test_token_role_limits_requests(served: Served) -> None:
    routes = [("GET", "/api/v1/alerts"), ("POST", "/api/v1/ingest/cpu"), ("POST", "/-/reload/none")]
    seen = [
        [served.ask(*route, role=role).status_code for route in routes]
        for role in tokens.TOKEN_ROLES
    ]
    assert tokens.TOKEN_ROLES == ("source", "viewer", "operator", "admin")
    assert seen == [[403, 415, 403], [200, 403, 403], [200, 415, 403], [200, 415, 404]]


def test_source_token_opens_no_session(served: Served) -> None:
    login = {"token": served.tokens["source"]}
    assert served.ask("POST", "/api/v1/sessions", None, json=login).status_code == 403


def test_source_token_posts_for_its_stream_only(served: Served) -> None:
    body = {"name": "cpu-agent", "role": "source", "stream": "cpu"}
    headers = {
        "Authorization": "Bearer " + served.ask("POST", "/api/v1/tokens", json=body).json()["token"]
    }
    statuses = [
        served.ask(
            "POST", f"/api/v1/ingest/{stream}", None, headers={**headers, **LINES}, content=ROW
        )
        for stream in ("cpu", "other")
    ]
    assert [answer.status_code for answer in statuses] == [202, 403]
    assert "posts for stream cpu only" in statuses[1].text
    served.clear()


@pytest.mark.parametrize(
    ("role", "stream", "message"),
    [("viewer", "cpu", "role viewer takes no stream"), ("source", "none", "no stream 'none'")],
)
def test_stream_of_a_token_is_checked(served: Served, role: str, stream: str, message: str) -> None:
    body = {"name": "wrong", "role": role, "stream": stream}
    refused = served.ask("POST", "/api/v1/tokens", json=body)
    assert refused.status_code == 400
    assert message in refused.text


def test_revoked_token_is_rejected(served: Served) -> None:
    token = tokens.create_token(served.connection, "passing", "viewer")
    headers = {"Authorization": f"Bearer {token}"}
    assert served.ask("GET", "/api/v1/rules", None, headers=headers).status_code == 200
    assert TokenGateway(served.connection).revoke("passing")
    assert served.ask("GET", "/api/v1/rules", None, headers=headers).status_code == 401
    row = served.connection.execute("SELECT hash FROM tokens WHERE name = 'passing'").fetchone()
    assert row is not None
    assert token.encode() not in bytes(row[0])


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", ""]
)
def test_unknown_host_header_is_rejected(served: Served, host: str) -> None:
    assert served.ask("GET", "/-/healthy", headers={"Host": host}).status_code == 400


def test_cross_origin_request_is_rejected(served: Served) -> None:
    assert served.post(ROW, add={"Origin": "https://evil.example"}).status_code == 403
    assert served.post(ROW, add={"Origin": "null"}).status_code == 403
    assert served.post(ROW, add={"Origin": served.url}).status_code == 202


def test_probes_need_no_token(served: Served) -> None:
    assert served.ask("GET", "/-/healthy", None).status_code == 200
    ready = served.ask("GET", "/-/ready", None)
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    assert "live" in ready.json()["missing"][0]


def test_server_is_ready_once_the_live_process_has_started(served: Served) -> None:
    processes = ProcessGateway(served.connection)
    epoch = processes.start("live", 1)
    for state, status in (("starting", 503), ("running", 200), ("ended", 503)):
        processes.heartbeat("live", epoch, state=state, first_commit_seconds=None, ingest=None)
        assert served.ask("GET", "/-/ready", None).status_code == status, state
        known = served.ask("GET", "/api/v1/status").json()["live"]
        assert known == {"ended": "stopped"}.get(state, state)
    served.connection.execute("DELETE FROM processes WHERE role = 'live'")


# The lines of bad_inputs.jsonl for this surface; its placeholders stand for real routes


@pytest.fixture(params=FILES, ids=["own", "beside"][: len(FILES)])
def bad_requests(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return read(request.param, "api")


def _state(served: Served) -> list[Any]:
    tables = ("rules", "rules_revision", "tokens", "pushes", "units")
    return [
        served.connection.execute(f"SELECT * FROM {table} ORDER BY 1".encode()).fetchall()
        for table in tables
    ]


def test_request_without_token_changes_and_reveals_nothing(
    served: Served, bad_requests: list[dict[str, Any]]
) -> None:
    given, before = bad_requests[0], _state(served)
    changing = [
        "/api/v1/rules",
        "/api/v1/rules/g/High",
        "/api/v1/rules/none",
        "/-/reload",
        "/api/v1/ingest/cpu",
        "/x",
    ]
    answers = [
        served.ask(method, path, None, headers={**JSON, **given["headers"]}, content=given["body"])
        for path in changing
        for method in ("POST", "PUT", "PATCH", "DELETE")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert (_state(served), served.landed()) == (before, {})


def test_malformed_token_is_rejected_and_not_logged(
    served: Served, bad_requests: list[dict[str, Any]]
) -> None:
    given = bad_requests[1]
    token = given["headers"]["Authorization"].encode()
    for value in (token, b"Bearer " + b"\xff\xfe" * 30, b"Bearer", b"", b"Basic YTpi"):
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
        connection.request("GET", "/api/v1/rules", headers={"Authorization": value})
        assert connection.getresponse().status == 401
        connection.close()
    served.post(ROW, role="viewer")
    log = served.log.read_bytes()
    assert token.removeprefix(b"Bearer ") not in log
    assert not any(secret.encode() in log for secret in served.tokens.values())


def test_too_large_body_is_rejected_before_its_end(
    served: Served, bad_requests: list[dict[str, Any]]
) -> None:
    given = bad_requests[2]
    size = sum(len(text) * times for text, times in given["body"]["parts"])
    served.post(ROW)
    for path in ("/api/v1/ingest/cpu", "/-/reload"):
        for chunked in (False, True):
            before = served.process.memory_info().rss
            status, sent = _pour(served, path, size, chunked)
            assert status == 413
            assert sent < size
            assert served.process.memory_info().rss - before < 20 << 20


def _pour(served: Served, path: str, size: int, chunked: bool) -> tuple[int, int]:
    """Sends a body until the answer comes; status (0: cut off) and bytes sent."""
    connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
    connection.putrequest("POST", path)
    connection.putheader("Authorization", f"Bearer {served.tokens['admin']}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader(
        *(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(size)))
    )
    connection.endheaders()
    sent, piece = 0, b"a" * 65536
    assert connection.sock is not None
    connection.sock.settimeout(2)
    try:
        while sent < size:
            connection.send(b"10000\r\n" + piece + b"\r\n" if chunked else piece[: size - sent])
            sent += len(piece)
    except OSError:
        pass
    connection.sock.settimeout(30)
    try:
        return connection.getresponse().status, sent
    except OSError:
        return 0, sent
    finally:
        connection.close()


def test_path_traversal_is_rejected(served: Served, bad_requests: list[dict[str, Any]]) -> None:
    given = bad_requests[3]
    path = given["path"].replace("/api/rules", "/api/v1/rules")
    for form in (path, path.replace("%2f", "/"), path.replace("%2f", "%5c"), "/api/v1/rules/%00"):
        connection = http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=30)
        connection.request(
            "GET", form, headers={"Authorization": f"Bearer {served.tokens['viewer']}"}
        )
        response = connection.getresponse()
        assert response.status in (400, 404)
        assert b"root:" not in response.read()
        connection.close()
    assert not [file.path for file in served.process.open_files() if file.path.startswith("/etc/")]


def test_limit_over_the_maximum_is_rejected(
    served: Served, bad_requests: list[dict[str, Any]]
) -> None:
    path = bad_requests[4]["path"].replace("/api/", "/api/v1/")
    answer = served.ask("GET", path)
    assert answer.status_code == 400
    assert "1000" in answer.json()["detail"]
    assert [
        served.ask("GET", f"/api/v1/alerts?limit={limit}").status_code
        for limit in ("0", "-1", "x", "1000")
    ] == [
        400,
        400,
        400,
        200,
    ]


# Rules


def test_rule_is_shown_by_name(served: Served) -> None:
    assert served.ask("GET", "/api/v1/rules", "viewer").json() == []
    assert served.ask("GET", "/api/v1/rules/g%2FHigh").status_code == 404


def test_reload_without_a_live_process_is_rejected(served: Served) -> None:
    before = _state(served)
    assert served.ask("POST", "/-/reload").status_code == 503
    assert _state(served) == before


# Limits, with small ones


Ask = Callable[[str, str], httpx.Response]


@pytest.fixture
def small(served: Served) -> Iterator[Callable[..., Ask]]:
    """Makes an application in this process, whose limits can be reached; it is asked by method and
    path.
    """
    connections = ConnectionPool(served.settings)
    headers = {"Authorization": f"Bearer {served.tokens['operator']}", **LINES}

    def make(**limits: Any) -> Ask:
        push = IngestHandler(
            served.settings.home, {"cpu": JSONL}, connections, IngestLimits(**limits)
        )
        transport = httpx.ASGITransport(app=create_application(served.settings, connections, push))

        async def request(method: str, path: str) -> httpx.Response:
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", headers=headers
            ) as client:
                return await client.request(method, path, content=ROW if method == "POST" else None)

        return lambda method, path: asyncio.run(request(method, path))

    yield make
    connections.close()


def test_rows_are_accepted_before_the_home_folder_exists(served: Served, tmp_path: Path) -> None:
    """With an external database the server may be the first process of a workspace."""
    connections = ConnectionPool(served.settings)
    assert not IngestHandler(
        tmp_path / "home", ["cpu"], connections, IngestLimits(disk_reserve_bytes=0)
    ).disk_is_full()
    connections.close()


def test_full_disk_rejects_rows(served: Served, small: Callable[..., Ask]) -> None:
    ask = small(disk_reserve_bytes=1 << 60)
    answer = ask("POST", "/api/v1/ingest/cpu")
    assert (answer.status_code, served.landed()) == (503, {})
    assert int(answer.headers["Retry-After"]) > 0
    assert ask("GET", "/-/ready").status_code == 503


def test_too_many_pending_batches_are_rejected_with_retry_after(
    served: Served, small: Callable[..., Ask]
) -> None:
    ask = small(max_pending_batches=1)
    assert [ask("POST", "/api/v1/ingest/cpu").status_code for _ in range(2)] == [202, 202]
    time.sleep(0.6)  # the lag is looked at twice a second
    answer = ask("POST", "/api/v1/ingest/cpu")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert len(served.landed()) == 2


def test_public_address_requires_tokens() -> None:
    with workspace(WORKSPACE.replace("127.0.0.1:0", "0.0.0.0:0"), RULES) as root:
        command = [
            sys.executable,
            "-m",
            "moirae",
            "run",
            "server",
            "--workspace",
            str(root / "moirae.yaml"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
        assert done.returncode == 2
        assert "there is no token: create one" in done.stderr


# A database that is busy or away


def test_cancelled_statement_leaves_its_connection_usable(served: Served) -> None:
    connections = ConnectionPool(served.settings)
    with connections.connection() as first, connections.connection() as second:
        pass
    with pytest.raises(RequestRejected, match="busy"), connections.connection() as connection:
        connection.execute("SET statement_timeout = '10ms'; SELECT pg_sleep(5)")
    assert not first.closed
    assert not second.closed
    with pytest.raises(Unreachable), connections.connection() as connection:
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert first.closed
    assert second.closed
    connections.close()


def test_idle_connections_that_the_server_closed_are_replaced(served: Served) -> None:
    connections = ConnectionPool(served.settings)
    with ExitStack() as stack:
        opened = [stack.enter_context(connections.connection()) for _ in range(5)]
        process_ids = [connection.info.backend_pid for connection in opened]
    ended = served.connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", (process_ids,)
    )
    assert ended.fetchall() == [(True,)] * 5
    with connections.connection() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("10s",)
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)
        row = connection.execute("SELECT '1e20'::jsonb").fetchone()
        assert row == (1e20,)
        assert isinstance(row[0], float)
    connections.close()


def test_a_pool_finds_a_server_that_has_moved(served: Served, tmp_path: Path) -> None:
    addresses = [f"postgresql://postgres:@/postgres?host={tmp_path}"]
    pool = sql.open_pool(
        lambda: addresses[-1], application_name="moirae test", max_size=2, timeout=0.5
    )
    with pool:
        with pytest.raises(sql.OperationalError):
            pool.getconn()
        addresses.append(database.database_dsn(served.settings))
        with pool.connection(timeout=30) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_database_that_is_away_is_reported(tmp_path: Path, served: Served) -> None:
    dsn = SecretStr(f"postgresql://postgres:@/postgres?host={tmp_path}")
    connections = ConnectionPool(served.settings.model_copy(update={"database": dsn}))
    with pytest.raises(Unreachable), connections.connection():
        pass
    connections.close()


@pytest.mark.parametrize("path", ["/-/ready", "/api/v1/rules"])
def test_busy_database_is_not_reported_as_unavailable(
    small: Callable[..., Ask], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def lend(_: ConnectionPool) -> Any:
        raise RequestRejected(503, "the database is busy", 5)

    monkeypatch.setattr(ConnectionPool, "connection", lend)
    answer = small()("GET", path)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database is busy")


def test_server_survives_lost_connections(served: Served) -> None:
    ended = "SELECT pid, pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'moirae server'"
    before = {row[0] for row in served.connection.execute(ended)}
    deadline = time.monotonic() + 60
    locks_query = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'"
    while not {row[0] for row in served.connection.execute(locks_query)} - before:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    served.ask("GET", "/api/v1/rules")  # the first may find a connection that is gone
    assert served.ask("GET", "/api/v1/rules").status_code == 200
    assert served.process.is_running()
