"""Requests that are rejected before they reach a route."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from moirae.errors import Unreachable
from moirae.server import access
from moirae.server.access import AccessMiddleware
from moirae.server.route_table import RouteAccess, RouteTable
from moirae.services.operation import Role
from moirae.services.tokens import Identity

ROLES: dict[bytes, Role] = {b"v": "viewer", b"o": "operator", b"a": "admin"}


class FakePool:
    """A pool whose connections are not used, or cannot be opened."""

    reachable = True

    @contextmanager
    def connection(self) -> Iterator[Any]:
        if not self.reachable:
            raise Unreachable("no server")
        yield None


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> FakePool:
    def authenticate(_: Any, token: bytes) -> Identity | None:
        role = ROLES.get(token)
        return None if role is None else Identity(role, role, role)

    monkeypatch.setattr(access.tokens, "authenticate", authenticate)
    return FakePool()


def request(
    pool: FakePool, method: str = "GET", path: str = "/api/v1/rules", **headers: str
) -> httpx.Response:
    return send(pool, method, path, [(n.replace("_", "-"), v) for n, v in headers.items()])


def send(pool: FakePool, method: str, path: str, headers: list[tuple[str, str]]) -> httpx.Response:
    return send_to(make_middleware(pool), method, path, headers)


def make_middleware(pool: FakePool) -> AccessMiddleware:
    return AccessMiddleware(PlainTextResponse("reached"), pool, ["Monitor"])  # type: ignore[arg-type]


def send_to(
    middleware: AccessMiddleware, method: str, path: str, headers: list[tuple[str, str]]
) -> httpx.Response:
    transport = httpx.ASGITransport(app=middleware)

    async def request() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(request())


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        ("GET", "/api/v1/alerts", [200, 200, 200]),
        ("POST", "/api/v1/ingest/cpu", [403, 200, 200]),
        ("POST", "/-/reload", [403, 403, 200]),
        ("DELETE", "/api/v1/rules", [403, 403, 200]),
    ],
)
def test_routes_need_a_role(pool: FakePool, method: str, path: str, statuses: list[int]) -> None:
    for token, status in zip("voa", statuses, strict=True):
        assert request(pool, method, path, Authorization=f"Bearer {token}").status_code == status


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer x", "Basic v"])
def test_request_without_valid_token_is_rejected(pool: FakePool, authorization: str) -> None:
    response = request(pool, Authorization=authorization)
    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert response.json()["detail"] == "valid token required: Authorization: Bearer TOKEN"


@pytest.mark.parametrize("authorization", ["Bearer v", "bearer v", "BEARER  v"])
def test_scheme_is_recognised_in_any_case(pool: FakePool, authorization: str) -> None:
    assert request(pool, Authorization=authorization).status_code == 200


@pytest.mark.parametrize("name", ["Host", "Authorization", "Origin"])
def test_repeated_header_is_rejected(pool: FakePool, name: str) -> None:
    headers = [("Authorization", "Bearer v"), (name, "127.0.0.1"), (name, "127.0.0.1")]
    response = send(pool, "GET", "/api/v1/rules", headers)
    assert response.status_code == 400
    assert response.json()["detail"] == f"repeated header: {name.lower()}"


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_probes_need_no_token(pool: FakePool, path: str) -> None:
    assert request(pool, path=path).status_code == 200
    assert request(pool, method="POST", path=path).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("[::1]:8765", 200),
        ("localhost", 200),
        ("monitor:8765", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
    ],
)
def test_host_header_must_be_an_address_or_a_known_name(
    pool: FakePool, host: str, status: int
) -> None:
    assert request(pool, path="/-/healthy", Host=host).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://127.0.0.1", 200), ("https://evil.example", 403), ("null", 403)],
)
def test_cross_origin_request_is_rejected(pool: FakePool, origin: str, status: int) -> None:
    assert request(pool, Authorization="Bearer v", Origin=origin).status_code == status


@pytest.mark.parametrize("header", [{"Content_Length": "10000"}, {"Transfer_Encoding": "chunked"}])
def test_large_body_is_rejected_except_for_ingest(pool: FakePool, header: dict[str, str]) -> None:
    reload = request(pool, "POST", "/-/reload", Authorization="Bearer a", **header)
    ingest = request(pool, "POST", "/api/v1/ingest/cpu", Authorization="Bearer a", **header)
    assert (reload.status_code, ingest.status_code) == (413, 200)


def test_unreachable_database_is_reported_with_time_to_retry(pool: FakePool) -> None:
    pool.reachable = False
    response = request(pool, Authorization="Bearer v")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert response.json()["detail"] == "the database is unreachable"


def test_sources_post_with_known_tokens_while_the_database_is_unreachable(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    middleware = make_middleware(pool)

    def ask(method: str, path: str, token: str) -> int:
        headers = [("Authorization", f"Bearer {token}")]
        return send_to(middleware, method, path, headers).status_code

    def post(token: str) -> int:
        return ask("POST", "/api/v1/ingest/cpu", token)

    assert (post("o"), post("v")) == (200, 403)
    pool.reachable = False
    assert (post("o"), post("v"), post("a")) == (200, 403, 503)
    assert ask("GET", "/api/v1/rules", "o") == 503
    monkeypatch.setattr(access, "_TRUSTED_SECONDS", 0.0)
    assert post("o") == 503


def test_responses_have_security_headers(pool: FakePool) -> None:
    for response in (request(pool), request(pool, Authorization="Bearer v")):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


# Bodies, sessions and rates

ROUTES = RouteTable(
    [
        RouteAccess("POST", "/api/v1/notes", "operator", has_json_body=True),
        RouteAccess("POST", "/api/v1/sessions", None, has_json_body=True),
    ]
)
JSON = "application/json"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body of the request."""
    message = await receive()
    assert not message["more_body"]
    await PlainTextResponse(message["body"])(scope, receive, send)


def post_parts(pool: FakePool, parts: list[bytes | float], **headers: str) -> httpx.Response:
    """Post a body in parts; a number is a pause in seconds."""
    middleware = AccessMiddleware(echo, pool, [], ROUTES)  # type: ignore[arg-type]

    async def content() -> AsyncIterator[bytes]:
        for part in parts:
            if isinstance(part, float):
                await asyncio.sleep(part)
            else:
                yield part

    async def post() -> httpx.Response:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.post("/api/v1/notes", content=content(), headers=named)

    return asyncio.run(post())


def test_short_body_of_a_refused_request_is_received_before_the_response(pool: FakePool) -> None:
    """Else the connection is closed while it arrives, and the client may see a reset only."""
    middleware = AccessMiddleware(echo, pool, ["Monitor"])  # type: ignore[arg-type]
    messages: list[str] = []

    async def receive() -> dict[str, Any]:
        messages.append("received")
        return {"type": "http.request", "body": b"{", "more_body": len(messages) < 2}

    async def respond(message: Any) -> None:
        messages.append(message.get("status", "body"))

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"2")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/rules",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "query_string": b"",
    }
    asyncio.run(middleware(scope, receive, respond))
    assert messages == ["received", "received", 401, "body"]


def test_body_is_received_whole_before_the_route(pool: FakePool) -> None:
    response = post_parts(pool, [b"{", b"}"], Authorization="Bearer o", Content_Type=JSON)
    assert (response.status_code, response.content) == (200, b"{}")


def test_slow_body_is_rejected(pool: FakePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BODY_TIMEOUT", 0.05)
    response = post_parts(pool, [b"{", 1.0, b"}"], Authorization="Bearer o", Content_Type=JSON)
    assert (response.status_code, response.json()["title"]) == (408, "Request timeout")


def test_body_is_rejected_where_it_exceeds_the_limit(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MAX_BODY_BYTES", 10)
    response = post_parts(pool, [b"x" * 6] * 2, Authorization="Bearer o", Content_Type=JSON)
    assert response.status_code == 413


def test_too_many_bodies_at_once_are_rejected(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MAX_CONCURRENT_BODIES", 0)
    response = post_parts(pool, [b"{}"], Authorization="Bearer o", Content_Type=JSON)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")


def test_change_of_a_session_needs_its_csrf_token(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Identity("1", "ada", "operator", "c" * 64)
    monkeypatch.setattr(access.tokens, "find_session", lambda _, cookie: session)
    sent = {"Content_Type": JSON, "Cookie": "moirae_session=x"}
    assert post_parts(pool, [b"{}"], **sent).status_code == 403
    assert post_parts(pool, [b"{}"], **sent, X_CSRF_Token="d" * 64).status_code == 403
    assert post_parts(pool, [b"{}"], **sent, X_CSRF_Token="c" * 64).status_code == 200
    # A token is no session: scripts of other sites do not have it.
    assert post_parts(pool, [b"{}"], **sent, Authorization="Bearer o").status_code == 200


def test_requests_of_a_token_are_limited(pool: FakePool) -> None:
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [], rate=0.2)  # type: ignore[arg-type]

    async def ask(token: str) -> int:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers = {"Authorization": f"Bearer {token}"}
            return (await client.get("/api/v1/rules", headers=headers)).status_code

    async def ask_all() -> list[int]:
        return [await ask(token) for token in "vvvo"]

    assert asyncio.run(ask_all()) == [200, 200, 429, 200]


def test_invalid_tokens_of_an_address_are_limited(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_FAILURE_BURST", 2.0)
    monkeypatch.setattr(access, "_FAILURES_PER_SECOND", 0.0)
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [])  # type: ignore[arg-type]

    async def ask_all() -> list[int]:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [(await client.get("/api/v1/rules")).status_code for _ in range(3)]

    assert asyncio.run(ask_all()) == [401, 401, 429]


def ask_in_turn(
    middleware: AccessMiddleware, requests: list[tuple[str, str, dict[str, str]]]
) -> list[httpx.Response]:
    """The responses to requests (method, path, headers) of one address, one after the other."""

    async def ask_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return [
                await client.request(method, path, headers=headers)
                for method, path, headers in requests
            ]

    return asyncio.run(ask_all())


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/v1/rules", {"Host": "evil.example"}, 400),
        ("POST", "/-/reload", {"Origin": "https://evil.example"}, 403),
        ("POST", "/-/reload", {"Content-Length": "10000"}, 413),
    ],
)
def test_refused_requests_of_an_address_are_limited(
    pool: FakePool,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    headers: dict[str, str],
    status: int,
) -> None:
    monkeypatch.setattr(access, "_FAILURE_BURST", 2.0)
    monkeypatch.setattr(access, "_FAILURES_PER_SECOND", 0.0)
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [])  # type: ignore[arg-type]
    responses = ask_in_turn(middleware, [(method, path, headers)] * 3)
    assert [response.status_code for response in responses] == [status, status, 429]


def test_requests_without_permission_count_for_the_rate_of_the_token(pool: FakePool) -> None:
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [], rate=0.2)  # type: ignore[arg-type]
    viewer = {"Authorization": "Bearer v"}
    responses = ask_in_turn(middleware, [("POST", "/-/reload", viewer)] * 3)
    assert [response.status_code for response in responses] == [403, 403, 429]


def test_valid_token_is_served_while_its_address_has_too_many_failures(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_FAILURE_BURST", 1.0)
    monkeypatch.setattr(access, "_FAILURES_PER_SECOND", 0.0)
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [])  # type: ignore[arg-type]
    path = "/api/v1/rules"
    tokens = ["v", "x", "x", "v", "o"]
    responses = ask_in_turn(
        middleware, [("GET", path, {"Authorization": f"Bearer {token}"}) for token in tokens]
    )
    assert [response.status_code for response in responses] == [200, 401, 429, 200, 429]


@pytest.mark.parametrize("token", ["v", "a"])
def test_unsupported_method_is_refused_with_the_supported_ones(pool: FakePool, token: str) -> None:
    middleware = AccessMiddleware(PlainTextResponse("reached"), pool, [], ROUTES)  # type: ignore[arg-type]
    headers = {"Authorization": f"Bearer {token}"}
    (response,) = ask_in_turn(middleware, [("PUT", "/api/v1/notes", headers)])
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.json()["detail"] == "PUT is not supported: use POST"


def test_slow_logins_do_not_stop_changes_with_a_token(
    pool: FakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "PUBLIC_BODY_TIMEOUT", 0.2)
    middleware = AccessMiddleware(echo, pool, [], ROUTES)  # type: ignore[arg-type]

    async def content(pause: float) -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(pause)
        yield b"}"

    async def post_all() -> tuple[list[int], int]:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:

            async def post(path: str, pause: float, **headers: str) -> int:
                headers["Content-Type"] = JSON
                response = await client.post(path, content=content(pause), headers=headers)
                return response.status_code

            logins = asyncio.gather(*(post("/api/v1/sessions", 5.0) for _ in range(20)))
            await asyncio.sleep(0.05)
            status = await post("/api/v1/notes", 0.0, Authorization="Bearer o")
            return await logins, status

    logins, status = asyncio.run(post_all())
    assert status == 200
    assert sorted(logins) == [408] * 8 + [503] * 12


def test_large_login_is_rejected(pool: FakePool) -> None:
    middleware = AccessMiddleware(echo, pool, [], ROUTES)  # type: ignore[arg-type]
    headers = {"Content-Type": JSON, "Content-Length": "5000"}
    (response,) = ask_in_turn(middleware, [("POST", "/api/v1/sessions", headers)])
    assert response.status_code == 413
