"""The login URL of the demo."""

from typing import Any

import pytest

from moirae.demo import login
from moirae.demo.login import create_login_url

SERVER = {"role": "server", "alive": True, "state": "listening on 127.0.0.1:8765"}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    monkeypatch.setattr(login, "list_processes", lambda _: listed)
    monkeypatch.setattr(login.tokens, "create_token", lambda *_: "secret")
    monkeypatch.setattr(login.tokens, "create_login_code", lambda *_: "code")
    return listed


def test_url_has_the_code_in_its_fragment(processes: list[dict[str, Any]]) -> None:
    processes.append(SERVER)
    assert create_login_url(None) == "http://127.0.0.1:8765/login#code=code"  # type: ignore[arg-type]


def test_demo_without_a_server_has_no_url(processes: list[dict[str, Any]]) -> None:
    processes.append({**SERVER, "alive": False})
    assert create_login_url(None) is None  # type: ignore[arg-type]
