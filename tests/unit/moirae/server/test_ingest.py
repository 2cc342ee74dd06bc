"""Accepting posted rows: clients that go away."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.requests import Request

from archiver.formats import JSONL
from moirae.errors import RequestRejected
from moirae.server.ingest import IngestHandler, IngestLimits


def test_client_that_disconnects_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    handler = IngestHandler(tmp_path, {"cpu": JSONL}, Mock(), IngestLimits(disk_reserve_bytes=0))
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": b'{"a": ', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(RequestRejected, match="the body is truncated") as refused:
        asyncio.run(handler.accept_batch("cpu", request))
    assert refused.value.status == 400
    assert list(tmp_path.glob("landing/cpu/*")) == []
