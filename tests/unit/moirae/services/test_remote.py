"""Requests of a remote workspace, and what it refuses to send."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest

from moirae.errors import MoiraeError, NotFound, Unreachable, UsageError
from moirae.services import remote as remote_module
from moirae.services.operations.alerts import AlertQuery, Comment, acknowledge, list_alerts
from moirae.services.operations.rules import show_rule
from moirae.services.operations.system import TokenBody, TokenQuery, create_token, list_tokens
from moirae.services.remote import RemoteWorkspace, read_server_address

TOKEN = "moirae_token"
NOTE = {
    "kind": "ack",
    "alert": "00000000-0000-0000-0000-000000000001",
    "rule": "g/r",
    "starts_at": "2026-01-01T00:00:00Z",
    "author": "ci",
}


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited before repetitions; no test really waits."""
    seconds: list[float] = []
    # Threads of libraries sleep, too: the module gets a clock of its own.
    monkeypatch.setattr(remote_module, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


def _busy(status: int, **headers: str) -> httpx.Response:
    details = {"type": "urn:moirae:problem:unreachable", "detail": "the database is busy"}
    return httpx.Response(status, json=details, headers=headers)


def _break(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError("Server disconnected")


def remote(respond: Any) -> RemoteWorkspace:
    return RemoteWorkspace("http://127.0.0.1:1", TOKEN, transport=httpx.MockTransport(respond))


def test_operation_becomes_a_request_with_token_and_idempotency_key() -> None:
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if request.method == "GET":
            return httpx.Response(200, json={"alerts": [], "next": None, "total": None})
        return httpx.Response(404, json={"type": "urn:moirae:problem:not-found", "detail": "no"})

    workspace = remote(respond)
    query = AlertQuery(state=["firing", "pending"], all=True, text="a b")
    assert list_alerts(workspace, query).alerts == []
    with pytest.raises(NotFound, match=r"^no$"):
        acknowledge(workspace, "a/b?", Comment(text="on it"))
    listed, acknowledged = requests
    assert str(listed.url) == (
        "http://127.0.0.1:1/api/v1/alerts?state=firing&state=pending&all=true&text=a+b"
    )
    assert listed.headers["Authorization"] == f"Bearer {TOKEN}"
    assert acknowledged.url.raw_path == b"/api/v1/alerts/a%2Fb%3F/ack"
    assert acknowledged.content == b'{"text":"on it"}'
    assert len(acknowledged.headers["Idempotency-Key"]) > 20
    assert "Idempotency-Key" not in listed.headers


def test_name_of_a_rule_is_a_path() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path == b"/api/v1/rules/group/a%20rule"
        return httpx.Response(500, content=b"<html>")

    with pytest.raises(MoiraeError, match="unexpected response with status 500"):
        show_rule(remote(respond), "group/a rule")


def test_unreachable_server_can_be_tried_again() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    with pytest.raises(Unreachable, match="connection refused"):
        list_tokens(remote(respond), TokenQuery(limit=1, cursor=None, count=False))


@pytest.mark.parametrize(
    ("failure", "wait"),
    [
        (_break, 0.5),
        (lambda _: _busy(503), 0.5),
        (lambda _: _busy(503, **{"Retry-After": "5"}), 5.0),
        (lambda _: _busy(429, **{"Retry-After": "1"}), 1.0),
        (lambda _: _busy(503, **{"Retry-After": "Mon, 23 Nov 2026 17:00:00 GMT"}), 0.5),
        (lambda _: httpx.Response(502, content=b"<html>"), 0.5),
    ],
)
def test_change_is_repeated_under_one_key(
    failure: Callable[[httpx.Request], httpx.Response], wait: float, waits: list[float]
) -> None:
    requests: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return failure(request) if len(requests) == 1 else httpx.Response(200, json=NOTE)

    workspace = remote(respond)
    acknowledge(workspace, "a", Comment(text="on it"))
    acknowledge(workspace, "a", Comment(text="on it"))
    first, repeated, other = [request.headers["Idempotency-Key"] for request in requests]
    assert first == repeated != other
    assert requests[0].content == requests[1].content == b'{"text":"on it"}'
    assert waits == [wait]


def test_repetitions_are_limited(waits: list[float]) -> None:
    with pytest.raises(Unreachable, match="Server disconnected"):
        acknowledge(remote(_break), "a", Comment(text=""))
    assert waits == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "response",
    [
        _busy(503, **{"Retry-After": "600"}),
        httpx.Response(503, json={"type": "urn:moirae:problem:failed", "detail": "disk full"}),
        httpx.Response(500, content=b"<html>"),
        httpx.Response(409, json={"type": "urn:moirae:problem:conflict", "detail": "in use"}),
    ],
)
def test_refused_change_is_not_repeated(response: httpx.Response, waits: list[float]) -> None:
    with pytest.raises(MoiraeError):
        acknowledge(remote(lambda _: response), "a", Comment(text=""))
    assert waits == []


def test_exported_text_may_contain_any_line_separator() -> None:
    rows = [{"text": "a\u2028b\u2029c\x85d\ne"}, {"text": ""}, {"text": "é" * 200_000}]
    content = b"".join(orjson.dumps(row) + b"\n" for row in rows)

    def respond(_: httpx.Request) -> httpx.Response:
        parts = [content[start : start + 1_001] for start in range(0, len(content), 1_001)]
        return httpx.Response(200, content=iter(parts))

    assert list(remote(respond).export("alerts", {})) == rows


def test_page_of_another_program_is_no_result() -> None:
    with pytest.raises(MoiraeError, match="unexpected response"):
        list_tokens(
            remote(lambda _: httpx.Response(200, content=b"<html>")),
            TokenQuery(limit=1, cursor=None, count=False),
        )


def test_secret_is_created_once(waits: list[float]) -> None:
    with pytest.raises(Unreachable):
        create_token(remote(_break), TokenBody(name="ci", role="viewer"))
    assert waits == []


def test_author_is_the_token() -> None:
    workspace = remote(lambda request: httpx.Response(500))
    assert workspace.with_author(None) is workspace
    with pytest.raises(UsageError, match="the author is the token's name"):
        workspace.with_author("ada")


@pytest.mark.parametrize(
    "url", ["moirae.example", "ftp://a", "http://", "https://a/x", "https://u:p@a", "https://a?b"]
)
def test_url_of_a_server_has_no_path(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a URL such as"):
        read_server_address(url, tmp_path, insecure=False)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8765", "http://moirae.example"])
def test_token_is_not_sent_unencrypted_to_other_machines(url: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with pytest.raises(UsageError, match="unencrypted: use https://, or --insecure"):
        read_server_address(url, file, insecure=False)
    for allowed in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://a"):
        assert read_server_address(allowed, file, insecure=False) == (allowed, TOKEN)
    assert read_server_address(url, file, insecure=True) == (url, TOKEN)


@pytest.mark.parametrize("content", [b"", b"two words", b"caf\xc3\xa9"])
def test_token_file_holds_one_token(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="not a token"):
        read_server_address("https://a", file, insecure=False)
    with pytest.raises(UsageError, match="No such file"):
        read_server_address("https://a", tmp_path / "none", insecure=False)
    with pytest.raises(UsageError, match="requires --token-file"):
        read_server_address("https://a", None, insecure=False)
