"""Logins: how many with one token."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock, Mock

import httpx
import pytest
from fastapi import FastAPI

from moirae.errors import RequestRejected
from moirae.server.routes import sessions
from moirae.services.tokens import Identity


class _Pool:
    @contextmanager
    def connection(self) -> Iterator[Any]:
        yield MagicMock()


def test_logins_with_one_token_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    audited: list[str] = []
    audit = Mock(insert=lambda author, *_: audited.append(author))
    monkeypatch.setattr(sessions, "AuditGateway", lambda _: audit)

    def identify(_: Any, value: Any) -> Identity:
        name = value.decode() if isinstance(value, bytes) else value
        return Identity(name, name, "viewer")

    monkeypatch.setattr(sessions.tokens, "authenticate", identify)
    monkeypatch.setattr(sessions.tokens, "open_session", lambda _, token_id: token_id)
    monkeypatch.setattr(sessions.tokens, "find_session", identify)
    app = FastAPI()
    sessions.add_session_routes(app, _Pool())  # type: ignore[arg-type]

    async def log_in(names: list[str]) -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for name in names:
                response = await client.post("/api/v1/sessions", json={"token": name})
                assert response.status_code == 201

    with pytest.raises(RequestRejected, match="too many logins with this token") as refused:
        asyncio.run(log_in(["ada"] * 1_000))
    assert (refused.value.status, refused.value.retry_after) == (429, 6)
    assert 30 <= len(audited) < 60
    asyncio.run(log_in(["grace"]))
