"""The HTTP API: roles of all routes, sessions, idempotent changes, pages, bodies and problems."""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_text_format
from psycopg.types.json import Jsonb

from archiver.times import to_micros
from moirae.runtime import database
from moirae.runtime.roles import Role
from moirae.services import tokens
from sql.access import TokenGateway
from tests.api_data import COUNT, RULES, START, WORKSPACE, alert_id, event_id, fill, task_id
from tests.served import JSON, Served, serve

ALERT, EVENT, RECALL = str(alert_id(1)), str(event_id(1)), str(task_id(1))
PROMTOOL = shutil.which("promtool")
ROLES = tokens.TOKEN_ROLES
ACK = f"/api/v1/alerts/{ALERT}/ack"
PATH_VALUES = {
    "alert": ALERT,
    "event": EVENT,
    "recall": RECALL,
    "rule": "r",
    "chunk": "1",
    "number": "1",
    "name": "none",
    "stream": "none",
    "relation": "none",
    "kind": "events",
    "view": "alerts",
    "silence": "none",
    "backtest": "00000000-0000-0000-0000-000000000001",
    "receiver": "none",
    "node": "rule:g/r",
    "incident": "00000000-0000-0000-0000-000000000001",
}
BODIES: dict[str, Any] = {
    "/api/v1/alerts/{alert}/notes": {"text": "a"},
    "/api/v1/alerts/{alert}/resolve": {"text": "a"},
    "/api/v1/alerts/{alert}/assign": {"assignee": "ada"},
    "/api/v1/commands": {"command": "refine", "id": RECALL},
    "/api/v1/dead-letters/progress": {"ids": []},
    "/api/v1/dead-letters/retry": {"ids": ["1:99"]},
    "/api/v1/events/{event}/judgements": {"past": EVENT, "helps": True},
    "/api/v1/events/{event}/judgements/withdraw": {"past": EVENT},
    "/api/v1/queries": {"sql": "SELECT count(*) AS n FROM cpu"},
    "/api/v1/backtests": {"files": []},
    "/api/v1/drafts/read": {"content": ""},
    "/api/v1/drafts/apply": {"content": "", "comment": "a"},
    "/api/v1/rules/resume": {"rules": ["r"]},
    "/api/v1/streams/{stream}/progress": {"batches": []},
    "/api/v1/tokens": {"name": "-", "role": "viewer"},
}
# Answers that depend on other processes, or on what the other tests have done.
IN_CHILD = (
    "/backtests",
    "/drafts/apply",
    "/why",
    "/rules/check",
    "/rules/diff",
    "/rules/apply",
    "/repeat",
    "/similarity/evaluation",
    "/queries",
)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serve(WORKSPACE, RULES) as running:
        fill(running.connection)
        # As the live process creates it, which does not run here.
        running.connection.execute("INSERT INTO chunks (id, state) VALUES (0, 'present')")
        yield running


@pytest.fixture(scope="module")
def document(served: Served) -> dict[str, Any]:
    response = served.ask("GET", "/api/v1/openapi.json", "viewer")
    assert response.status_code == 200
    described: dict[str, Any] = response.json()
    return described


def _routes(document: dict[str, Any]) -> Iterator[tuple[str, str, str | None, dict[str, Any]]]:
    """Method, path, required role and options of a valid request of each route."""
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            if path == "/api/v1/live":
                continue  # does not end
            options: dict[str, Any] = {}
            if "requestBody" in described and path != "/api/v1/ingest/{stream}":
                options = {"headers": JSON, "content": json.dumps(BODIES.get(path, {}))}
            if path.endswith("/files"):
                options = {"params": {"suffix": ".csv"}, "content": b""}
            url = path.format(**PATH_VALUES)
            yield method.upper(), url, described.get("x-required-role"), options


# Roles


@pytest.mark.parametrize("is_answered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_each_route_needs_its_role(
    served: Served, document: dict[str, Any], is_answered: bool
) -> None:
    """`is_answered`: each role is tried, else of those that are refused the last one."""
    seen = 0
    for method, url, required, options in _routes(document):
        if required is None:
            continue
        anonymous = served.ask(method, url, None, **options)
        assert anonymous.status_code == 401, (method, url)
        refused_roles = [role for role in ROLES if not tokens.role_allows(role, required)]
        for role in refused_roles if is_answered else refused_roles[-1:]:
            refused = served.ask(method, url, role, **options)
            assert refused.status_code == 403, (method, url, role)
            assert required in refused.json()["detail"]
        seen += 1
        if is_answered and not url.endswith(IN_CHILD):
            answer = served.ask(method, url, required, **options)
            assert answer.status_code not in (401, 403), (method, url, required)
            assert answer.status_code < 500 or url.startswith("/-/"), answer.text
    assert seen > 30


def test_only_probes_and_logins_need_no_token(document: dict[str, Any]) -> None:
    public = [
        path for path, ms in document["paths"].items() for m in ms.values() if not m["security"]
    ]
    assert public == ["/-/healthy", "/-/ready", "/api/v1/sessions"]


# HEAD

PAGES = ("/", f"/alerts/{ALERT}", "/system", "/login", "/static/login.css", "/no-such-page")
CHANGING_HEADERS = {"date", "content-length"}  # of answers that depend on the time


@pytest.mark.slow
def test_each_route_that_answers_get_answers_head(served: Served, document: dict[str, Any]) -> None:
    urls = [url for method, url, _, _ in _routes(document) if method == "GET"]
    options = {"headers": {"Accept": "text/html"}}
    for url in (*urls, *PAGES, "/metrics", "/-/healthy", "/-/ready"):
        head = served.ask("HEAD", url, "admin", **options)
        get = served.ask("GET", url, "admin", **options)
        assert (head.status_code, head.content) == (get.status_code, b""), url
        for name in get.headers.keys() - CHANGING_HEADERS:
            assert head.headers[name] == get.headers[name], (url, name)
        assert ("Content-Length" in head.headers) == ("Content-Length" in get.headers), url


def test_head_of_live_events_ends(served: Served) -> None:
    response = served.ask("HEAD", "/api/v1/live", "viewer")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Content-Type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("path", "role", "status"),
    [("/api/v1/alerts", None, 401), ("/api/v1/tokens", "viewer", 403), (ACK, "operator", 405)],
)
def test_head_needs_the_role_of_get(
    served: Served, path: str, role: str | None, status: int
) -> None:
    response = served.ask("HEAD", path, role)
    assert (response.status_code, response.content) == (status, b"")


# Problems


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/api/v1/alerts/ff", 404, "urn:moirae:problem:not-found"),
        ("GET", "/api/v1/alerts/a", 400, "urn:moirae:problem:invalid"),
        ("GET", "/api/v1/alerts?cursor=x", 400, "urn:moirae:problem:invalid"),
        ("GET", "/api/v1/alerts?nonsense=1", 400, "urn:moirae:problem:invalid"),
        ("GET", "/api/v1/alerts?since=0000-01-01", 400, "urn:moirae:problem:invalid"),
        ("GET", "/api/v1/nothing", 404, "urn:moirae:problem:not-found"),
        ("PUT", "/api/v1/alerts", 405, "about:blank"),
        ("GET", "/api/v1/dashboard/streams?since=7d", 400, "urn:moirae:problem:invalid"),
        ("GET", "/api/v1/recalls/" + EVENT, 404, "urn:moirae:problem:not-found"),
    ],
)
def test_errors_are_problem_details(
    served: Served, method: str, path: str, status: int, kind: str
) -> None:
    response = served.ask(method, path)
    assert (response.status_code, response.json()["type"]) == (status, kind)
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == status
    assert response.json()["detail"]


# Lists


def test_pages_hold_each_alert_once_in_order(served: Served) -> None:
    ids: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2, **({} if cursor is None else {"cursor": cursor})}
        page = served.ask("GET", "/api/v1/alerts", params=params).json()
        ids += [alert["id"] for alert in page["alerts"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert ids == [str(alert_id(number)) for number in reversed(range(COUNT))]


def test_pages_hold_each_token_once(served: Served) -> None:
    names: list[str] = []
    cursor = None
    while True:
        params = {"limit": 1, "count": "true", **({} if cursor is None else {"cursor": cursor})}
        page = served.ask("GET", "/api/v1/tokens", params=params).json()
        names += [token["name"] for token in page["tokens"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == sorted(names)
    assert len(names) == page["total"]
    assert set(ROLES) <= set(names)


@pytest.mark.parametrize(
    ("params", "numbers"),
    [
        ({"text": "HOST3"}, [3]),
        ({"text": "<b>"}, [4, 3, 2, 1, 0]),
        ({"text": "100%"}, []),
        ({"label": ["severity=page", "alertname=r"]}, [3, 1]),
        ({"label": "severity=none"}, []),
        ({"until": "2026-01-01T00:02:00Z"}, [1, 0]),
        ({"since": "2026-01-01T00:03:00"}, [4, 3, 2, 1, 0]),
        ({"state": "resolved"}, []),
        ({"rule": "r", "limit": 1}, [4]),
    ],
)
def test_alerts_are_searched(served: Served, params: dict[str, Any], numbers: list[int]) -> None:
    page = served.ask("GET", "/api/v1/alerts", "viewer", params={**params, "count": "true"}).json()
    assert [alert["id"] for alert in page["alerts"]] == [str(alert_id(n)) for n in numbers]
    assert page["total"] == (COUNT if params.get("limit") else len(numbers))


def test_report_has_all_that_a_page_shows(served: Served) -> None:
    report = served.ask("GET", f"/api/v1/alerts/{alert_id(COUNT - 1)}/report", "viewer").json()
    assert report["event"]["contexts"] == {"own": [{"cpu": 91.5}]}
    (answer,) = report["recalls"]
    (hit,) = answer["hits"]
    assert (hit["eid"], hit["score"], hit["shared"]) == (
        str(event_id(0)),
        0.75,
        [["cpu=91.5", 1.0]],
    )
    assert hit["past"]["alert"] == str(alert_id(0))
    assert answer["coverage"]["read"] == 2
    assert report["url"].endswith(f"/alerts/{alert_id(COUNT - 1)}")


def test_overview_has_norm_and_best_match_of_firing_alerts(served: Served) -> None:
    rows = served.ask("GET", "/api/v1/overview", "viewer", params={"limit": 2}).json()
    assert [row["alert"]["id"] for row in rows] == [str(alert_id(4)), str(alert_id(3))]
    assert rows[0]["best"]["eid"] == str(event_id(0))
    assert (rows[1]["norms"], rows[1]["best"]) == ({"norm": [{"mean": 2.5}]}, None)
    assert rows[0]["is_final"]


def test_revisions_are_listed_after_a_number(served: Served) -> None:
    path = f"/api/v1/recalls/{RECALL}/revisions"
    numbers = [row["number"] for row in served.ask("GET", path, "viewer").json()]
    assert numbers == [1, 2]
    (last,) = served.ask("GET", path, "viewer", params={"after": 1}).json()
    assert (last["rows"], last["final"], last["name"]) == ([{"mean": 2.5}], True, "norm")


@pytest.mark.parametrize("view", ["alerts", "recalls", "similar_events", "streams", "chunks"])
def test_views_are_plain_arrays(served: Served, view: str) -> None:
    rows = served.ask("GET", f"/api/v1/dashboard/{view}", "viewer").json()
    assert isinstance(rows, list)
    assert rows
    if view == "similar_events":
        assert rows[0]["reason"] == "cpu=91.5"
        assert rows[0]["past_alert"] == str(alert_id(0))
        assert datetime.fromisoformat(rows[0]["ts"]) == START + timedelta(minutes=COUNT - 1)


@pytest.mark.parametrize(
    ("view", "params", "count"),
    [
        ("similar_events", {"since": "2026-01-01T00:04:00Z"}, 1),
        ("similar_events", {"until": "2026-01-01T00:04:00Z"}, 0),
        ("similar_events", {"eid": str(event_id(COUNT - 1))}, 1),
        ("alerts", {"since": "2026-01-01T00:03:00Z"}, 2),
        ("alerts", {"since": "5m"}, 0),
    ],
)
def test_views_are_filtered(served: Served, view: str, params: dict[str, str], count: int) -> None:
    rows = served.ask("GET", f"/api/v1/dashboard/{view}", "viewer", params=params).json()
    assert len(rows) == count


# Changes


def _count_notes(served: Served, text: str) -> int:
    row = served.connection.execute(
        "SELECT count(*) FROM alert_notes WHERE text = %s", (text,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_change_under_a_key_is_made_once(served: Served) -> None:
    def acknowledge(_: int) -> tuple[int, bytes]:
        response = served.ask(
            "POST", ACK, headers={**JSON, "Idempotency-Key": "k1"}, content='{"text": "once"}'
        )
        return response.status_code, response.content

    with ThreadPoolExecutor(20) as threads:
        answers = set(threads.map(acknowledge, range(20)))
    ((status, _),) = answers
    assert (status, _count_notes(served, "once")) == (200, 1)
    other = served.ask(
        "POST", ACK, headers={**JSON, "Idempotency-Key": "k1"}, content='{"text": "twice"}'
    )
    assert (other.status_code, _count_notes(served, "twice")) == (409, 0)
    # Another token has keys of its own.
    same = served.ask(
        "POST",
        ACK,
        "operator",
        headers={**JSON, "Idempotency-Key": "k1"},
        content='{"text": "twice"}',
    )
    assert (same.status_code, same.json()["author"]) == (200, "operator")


def test_secret_of_a_change_is_not_stored_under_its_key(served: Served) -> None:
    headers = {**JSON, "Idempotency-Key": "k2"}
    content = '{"name": "keyed", "role": "viewer"}'
    created = served.ask("POST", "/api/v1/tokens", headers=headers, content=content)
    again = served.ask("POST", "/api/v1/tokens", headers=headers, content=content)
    assert (created.status_code, again.status_code) == (200, 409)
    stored = served.connection.execute("SELECT to_jsonb(r)::text FROM requests r").fetchall()
    assert not any(created.json()["token"] in text for (text,) in stored)


def test_change_is_recorded_with_its_author_or_not_made(served: Served) -> None:
    served.ask("POST", ACK, "operator", headers=JSON, content='{"text": "audited"}')
    served.ask("POST", f"/api/v1/alerts/{ALERT}/notes", headers=JSON, content='{"text": " "}')
    changes = served.ask("GET", "/api/v1/audit").json()["changes"]
    assert (changes[0]["author"], changes[0]["via"]) == ("operator", "api")
    assert changes[0]["arguments"]["body"] == {"text": "audited"}
    assert not any(change["arguments"].get("body") == {"text": " "} for change in changes)


@pytest.mark.slow
def test_rules_are_not_applied_while_the_workspace_watches_its_files() -> None:
    with serve(WORKSPACE.replace("watch_rules: false", ""), RULES) as running:
        answer = running.ask("POST", "/api/v1/rules/apply", headers=JSON, content="{}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:moirae:problem:conflict")
        assert "watch_rules" in answer.json()["detail"]


# Bodies


def _send_raw(served: Served, head: str, body: bytes = b"") -> bytes:
    """The answer to a raw request; sending ends after the body."""
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        token = served.tokens["operator"]
        request = (
            f"POST {ACK} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{head}\r\n"
        )
        connection.sendall(request.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_body_must_be_json_of_limited_size(served: Served) -> None:
    def send(content: bytes, **headers: str) -> int:
        return served.ask("POST", ACK, headers=headers, content=content).status_code

    assert send(b"{}") == 415
    assert send(b"text=a", **{"Content-Type": "application/x-www-form-urlencoded"}) == 415
    assert send(b"{}", **JSON, **{"Content-Encoding": "gzip"}) == 415
    assert send(b'{"text": ', **JSON) == 400
    assert send(b'{"text": "a", "x": 1}', **JSON) == 400
    assert send(b'{"text": "' + b"a" * 10_001 + b'"}', **JSON) == 400
    assert send(b'{"text": "a\\u0000"}', **JSON) == 400
    assert send(b" " * ((2 << 20) + 1), **JSON) == 413
    assert send(b"[" * 100_000, **JSON) == 400


def test_truncated_body_changes_nothing(served: Served) -> None:
    before = _count_notes(served, "cut")
    answer = _send_raw(
        served, "Content-Type: application/json\r\nContent-Length: 100\r\n", b'{"text": "cut"}'
    )
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert _count_notes(served, "cut") == before


def test_hostile_text_comes_back_as_it_was_sent(served: Served) -> None:
    text = "<script>alert(1)</script>\u202e\x1b[31m = @ ' \" \\ 🙂"
    served.ask("POST", ACK, headers=JSON, content=json.dumps({"text": text}))
    shown = served.ask("GET", f"/api/v1/alerts/{ALERT}", "viewer")
    assert shown.json()["notes"][-1]["text"] == text
    assert shown.headers["X-Content-Type-Options"] == "nosniff"


# Sessions


def _log_in(served: Served, **login: str) -> httpx.Response:
    return httpx.post(f"{served.url}/api/v1/sessions", json=login, timeout=60)


def test_session_cookie_replaces_the_token_and_ends_with_it(served: Served) -> None:
    token = tokens.create_token(served.connection, "browser", "operator")
    opened = _log_in(served, token=token)
    assert opened.status_code == 201
    cookie = opened.headers["Set-Cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/"))
    csrf_token = opened.json()["csrf_token"]
    with httpx.Client(base_url=served.url, cookies=opened.cookies, timeout=60) as browser:
        assert browser.get("/api/v1/alerts").status_code == 200
        current = browser.get("/api/v1/sessions/current").json()
        assert (current["name"], current["csrf_token"]) == ("browser", csrf_token)
        body: dict[str, Any] = {"json": {"text": "by browser"}}
        assert browser.post(ACK, **body).status_code == 403
        wrong = browser.post(ACK, headers={"X-CSRF-Token": "0" * 64}, **body)
        assert "CSRF" in wrong.json()["detail"]
        right = {"X-CSRF-Token": csrf_token}
        evil = {**right, "Origin": "https://evil.example"}
        assert browser.post(ACK, headers=evil, **body).status_code == 403
        assert browser.post(ACK, headers=right, **body).json()["author"] == "browser"
        assert browser.post("/api/v1/rules/apply", headers=right, json={}).status_code == 403
        assert TokenGateway(served.connection).revoke("browser")
        assert browser.get("/api/v1/alerts").status_code == 401


def test_logins_and_uploads_are_in_the_audit_log(served: Served) -> None:
    opened = _log_in(served, token=served.tokens["operator"])
    headers = {"X-CSRF-Token": opened.json()["csrf_token"]}
    with httpx.Client(base_url=served.url, cookies=opened.cookies, timeout=60) as browser:
        uploaded = browser.post(
            "/api/v1/streams/cpu/files?suffix=.csv",
            headers={**headers, "Content-Type": "application/octet-stream"},
            content=b"ts,host,cpu\n",
        )
        browser.delete("/api/v1/sessions/current", headers=headers)
    page = served.ask("GET", "/api/v1/audit?author=operator&limit=3&count=true").json()
    changes = [(change["operation"], change["arguments"]) for change in page["changes"]]
    assert changes == [
        ("sessions.log_out", {}),
        ("archive.upload_file", {"stream": "cpu", **uploaded.json()}),
        ("sessions.log_in", {"method": "token"}),
    ]
    assert page["total"] >= 3


def test_logout_ends_the_session(served: Served) -> None:
    opened = _log_in(served, token=served.tokens["viewer"])
    headers = {"X-CSRF-Token": opened.json()["csrf_token"]}
    with httpx.Client(base_url=served.url, cookies=opened.cookies, timeout=60) as browser:
        assert browser.delete("/api/v1/sessions/current", headers=headers).status_code == 204
    assert httpx.get(f"{served.url}/api/v1/alerts", cookies=opened.cookies).status_code == 401


def test_code_opens_one_session(served: Served) -> None:
    code = served.ask("POST", "/api/v1/tokens/viewer/login-codes").json()["code"]
    assert _log_in(served, code=code).json()["role"] == "viewer"
    assert _log_in(served, code=code).status_code == 401
    expired = served.ask("POST", "/api/v1/tokens/viewer/login-codes").json()["code"]
    served.connection.execute("UPDATE login_codes SET expires_at = clock_timestamp()")
    assert _log_in(served, code=expired).status_code == 401


@pytest.mark.parametrize(
    ("login", "status"),
    [
        ({}, 400),
        ({"token": "a", "code": "b"}, 400),
        ({"token": "moirae_0"}, 401),
        ({"code": "é"}, 401),
        ({"user": "admin", "password": "admin"}, 400),
    ],
)
def test_invalid_login_is_refused(served: Served, login: dict[str, str], status: int) -> None:
    assert _log_in(served, **login).status_code == status


def test_login_page_has_no_inline_script(served: Served) -> None:
    page = httpx.get(f"{served.url}/login")
    assert page.status_code == 200
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    for path in ("/static/login.js", "/static/login.css"):
        assert path in page.text
        assert httpx.get(served.url + path).status_code == 200
    assert "<script>" not in page.text


# Metrics


def test_metrics_are_read_by_the_client_library(served: Served) -> None:
    with database.connect_database(served.settings, "tests") as connection:
        role = Role(connection, "recall", 0.0)
        role.heartbeat("running")
        text_format = served.ask("GET", "/metrics", "viewer")
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        openmetrics = served.ask("GET", "/metrics", "viewer", headers=accept)
        role.heartbeat("ended")
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(openmetrics.text)}
    up = {s.labels["process"]: s.value for s in families["moirae_process_up"].samples}
    assert up["server"] == up["recall"] == 1.0
    records = {
        (s.labels["stream"], s.labels["result"]): s.value
        for s in families["moirae_records"].samples
    }
    assert records["cpu", "read"] == records["cpu", "archived"] + records["cpu", "malformed"] == 2
    assert {family.name for family in parse_text_format(text_format.text)} >= {"moirae_alerts"}
    assert families["moirae_ingest_lag_seconds"].samples[0].value > 0


def test_metrics_name_rows_ahead_and_held_relations(served: Served) -> None:
    now = datetime.now(UTC)
    with served.connection.transaction():
        (newest,) = served.connection.execute(  # type: ignore[misc]
            "SELECT newest FROM streams WHERE name = 'cpu'"
        ).fetchone()
        keys = [{"key": [["host", "a"]], "ahead": 285_500_000, "at": to_micros(now)}]
        served.connection.execute(
            "UPDATE streams SET newest = %s, keys_ahead = %s WHERE name = 'cpu'",
            [now + timedelta(minutes=5), Jsonb(keys)],
        )
        served.connection.execute(
            "INSERT INTO held_relations (relation, fingerprint, rows, rows_in_use)"
            " VALUES ('hosts', 'f', 5, 54)"
        )
        (chunk,) = served.connection.execute(  # type: ignore[misc]
            "INSERT INTO maintenance_errors (chunk, task, error)"
            " SELECT max(id), 'cluster', 'no space left' FROM chunks RETURNING chunk"
        ).fetchone()
    text = served.ask("GET", "/metrics", "viewer").text
    assert 'moirae_rows_ahead_seconds{stream="cpu"} 285.5\n' in text
    assert 'moirae_ingest_lag_seconds{stream="cpu"} 0.0\n' in text
    assert 'moirae_late_rows_by_ahead_total{stream="cpu"} 0.0\n' in text
    assert 'moirae_held_relation_rows{relation="hosts"} 5.0\n' in text
    lag = served.ask("GET", "/api/v1/streams", "viewer").json()[0]["lag"]
    assert 'moirae_maintenance_errors{task="cluster"} 1.0\n' in text
    errors = served.ask("GET", "/api/v1/status", "viewer").json()["maintenance_errors"]
    assert [(row["chunk"], row["error"]) for row in errors] == [(chunk, "no space left")]
    served.connection.execute("DELETE FROM maintenance_errors")
    served.connection.execute("DELETE FROM held_relations")
    served.connection.execute(
        "UPDATE streams SET newest = %s, keys_ahead = '[]' WHERE name = 'cpu'", [newest]
    )
    assert lag == 0.0


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_metrics_pass_the_checks_of_promtool(served: Served) -> None:
    text = served.ask("GET", "/metrics", "viewer").content
    checked = subprocess.run(
        [str(PROMTOOL), "check", "metrics"],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, b"")
