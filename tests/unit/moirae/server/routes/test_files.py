"""Uploads of files: how many at once, a full disk, and the audit log."""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import httpx
import pytest
from fastapi import FastAPI

from moirae.errors import RequestRejected, Unreachable
from moirae.server.responses import set_identity
from moirae.server.routes import files
from moirae.services.tokens import Identity

PATH = "/api/v1/streams/cpu/files?suffix=.csv"
CONTENT = b"ts,host\n2026-01-01,a\n"


class Uploads:
    """The routes of a workspace with one stream. `audited`: lines of the audit log."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.audited: list[tuple[Any, ...]] = []
        self.disk_is_full = Mock(return_value=False)
        handler = Mock(disk_is_full=self.disk_is_full)
        settings = Mock(home=home, landing=None, streams={"cpu": Mock(redact=())})
        self._app = FastAPI()
        files.add_file_routes(self._app, settings, self, handler)  # type: ignore[arg-type]

    @contextmanager
    def connection(self) -> Iterator[Any]:
        yield MagicMock()

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        set_identity(scope, Identity("1", "ada", "operator"))
        await self._app(scope, receive, send)

    async def post(self, content: Any, **headers: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._serve)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            headers["Content-Type"] = "application/octet-stream"
            return await client.post(PATH, content=content, headers=headers)

    def files(self) -> list[bytes]:
        """All files in the landing folder, also unfinished ones."""
        return [path.read_bytes() for path in self.home.glob("landing/cpu/*")]


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uploads:
    running = Uploads(tmp_path)
    audit = Mock(insert=lambda *line: running.audited.append(line))
    monkeypatch.setattr(files, "AuditGateway", lambda _: audit)
    return running


def test_upload_is_recorded_in_the_audit_log(uploads: Uploads) -> None:
    response = asyncio.run(uploads.post(CONTENT))
    assert (response.status_code, uploads.files()) == (202, [CONTENT])
    arguments = {"stream": "cpu", **response.json()}
    assert uploads.audited == [("ada", "api", "archive.upload_file", arguments)]


def test_too_many_uploads_at_once_are_refused(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()

    async def slow_content() -> AsyncIterator[bytes]:
        yield b"ts"
        await release.wait()

    async def run() -> list[int]:
        slow = [asyncio.create_task(uploads.post(slow_content())) for _ in range(4)]
        while len(uploads.files()) < 4:
            await asyncio.sleep(0.01)
        with pytest.raises(RequestRejected, match="too many concurrent uploads") as refused:
            await uploads.post(CONTENT)
        assert refused.value.status == 503
        release.set()
        statuses = [(await task).status_code for task in slow]
        return [*statuses, (await uploads.post(CONTENT)).status_code]

    assert asyncio.run(run()) == [202] * 5


@pytest.mark.parametrize("step", ["fsync", "replace", "mkdir"])
def test_failed_write_is_refused_and_leaves_no_file(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path if step == "mkdir" else files.os, step, fail)
    with pytest.raises(RequestRejected, match="cannot write the file: No space left") as refused:
        asyncio.run(uploads.post(CONTENT))
    assert (refused.value.status, refused.value.retry_after) == (503, 30)
    assert uploads.files() == []


def test_file_is_not_published_if_the_audit_log_cannot_be_committed(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = MagicMock()
    connection.transaction.return_value.__exit__.side_effect = Unreachable("database away")

    @contextmanager
    def connect() -> Iterator[Any]:
        yield connection

    monkeypatch.setattr(uploads, "connection", connect)
    with pytest.raises(Unreachable):
        asyncio.run(uploads.post(CONTENT))
    assert uploads.files() == []


def test_slow_upload_ends_at_the_time_limit(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_UPLOAD_TIMEOUT", 0.1)

    async def slow_content() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0.01)

    with pytest.raises(RequestRejected, match="file not received within") as refused:
        asyncio.run(uploads.post(slow_content()))
    assert (refused.value.status, uploads.files()) == (408, [])


def test_upload_does_not_use_up_the_reserve_of_the_disk(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_DISK_CHECK_BYTES", 10)
    uploads.disk_is_full.return_value = True
    with pytest.raises(RequestRejected, match="disk space is low"):
        asyncio.run(uploads.post(CONTENT))
    assert uploads.files() == []


def test_key_that_would_have_no_effect_is_refused(uploads: Uploads) -> None:
    with pytest.raises(RequestRejected, match="Idempotency-Key is not supported for files"):
        asyncio.run(uploads.post(CONTENT, **{"Idempotency-Key": "a"}))
