"""The server over https, and behind a proxy."""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.errors import Unreachable
from tests.api_data import RULES, WORKSPACE
from tests.certificates import make_certificate
from tests.served import Served, serve


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem and key.pem of 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    make_certificate(folder)
    return folder


@pytest.fixture(scope="module")
def served(certificate: Path) -> Iterator[Served]:
    tls = f"tls: {{cert: {certificate}/cert.pem, key: {certificate}/key.pem}}"
    server = f'server: {{listen: "127.0.0.1:0", {tls}, url: "https://moirae.example"}}'
    text = WORKSPACE.replace('server: {listen: "127.0.0.1:0"}', server)
    with serve(text, RULES) as running:
        running.url = running.url.replace("http://", "https://")
        yield running


def test_session_over_https_is_secure(served: Served, certificate: Path) -> None:
    with httpx.Client(
        base_url=served.url, verify=ssl.create_default_context(cafile=certificate / "cert.pem")
    ) as browser:
        opened = browser.post("/api/v1/sessions", json={"token": served.tokens["viewer"]})
        assert opened.status_code == 201
        cookie = opened.headers["Set-Cookie"]
        assert cookie.startswith("__Host-moirae_session=")
        assert "Secure" in cookie
        assert "max-age" in opened.headers["Strict-Transport-Security"]
        assert browser.get("/api/v1/alerts").status_code == 200
        named = browser.get("/-/healthy", headers={"Host": "moirae.example"})
        assert named.status_code == 200


def test_links_have_the_public_address(served: Served) -> None:
    command = ["tokens", "login-url", "viewer", "--workspace", str(served.settings.file)]
    url = CliRunner().invoke(app, command).stdout
    assert url.startswith("https://moirae.example/login#code=")


def test_command_verifies_the_certificate(
    served: Served, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--server", served.url, "--token-file", str(served.token_file("viewer"))]
    refused = CliRunner().invoke(app, ["alerts", "list", *where])
    assert isinstance(refused.exception, Unreachable)
    assert "certificate" in str(refused.exception).lower()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    assert CliRunner().invoke(app, ["alerts", "list", *where]).stdout == "no alerts\n"


def test_plain_http_is_not_answered(served: Served) -> None:
    host, _, port = served.url.removeprefix("https://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            answer = b""
    assert not answer.startswith(b"HTTP/1.1 200")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("proxies", "name"),
    [
        ("[127.0.0.1]", "__Host-moirae_session"),
        ("[10.0.0.0/8]", "moirae_session"),
    ],
)
def test_forwarded_scheme_counts_from_known_proxies_only(proxies: str, name: str) -> None:
    server = f'server: {{listen: "127.0.0.1:0", proxies: {proxies}}}'
    text = WORKSPACE.replace('server: {listen: "127.0.0.1:0"}', server)
    with serve(text, RULES) as running:
        opened = httpx.post(
            f"{running.url}/api/v1/sessions",
            json={"token": running.tokens["viewer"]},
            headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"},
        )
        assert opened.headers["Set-Cookie"].startswith(f"{name}=")
