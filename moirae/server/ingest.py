"""Ingest of posted rows: each batch is durable in the landing folder before it is acknowledged."""

import asyncio
import hashlib
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from archiver.errors import ArchiverError
from archiver.formats import Format, landed_format, landed_suffix
from moirae.config import EXTERNAL_ALERTS, Stream
from moirae.errors import RequestRejected
from moirae.runtime.storage import DISK_RESERVE, Landing, Landings, redact_batch
from moirae.server.pool import ConnectionPool
from moirae.server.request_body import (
    decompress,
    parse_content_headers,
    split_rows,
    stored_format,
)
from sql.access import IdempotencyKeyGateway
from sql.archive import UnitGateway

_KEY_PATTERN = re.compile(r"[\x21-\x7e]{1,128}")
_NAME_PREFIX = "push-"  # of batches; keeps the names apart from those of `moirae ingest`
_LINES_SUFFIX = landed_suffix("jsonl")
_BACKLOG_MAX_AGE = 0.5  # seconds before the landing folder is scanned again
_BUSY_RETRY = 1  # seconds after which a client may retry
_BACKLOG_RETRY = 5  # seconds
_DISK_RETRY = 30  # seconds


@dataclass(frozen=True)
class IngestLimits:
    """Limits of the server; pending data is data that is not archived yet."""

    max_body_bytes: int = 8 << 20
    max_unpacked_bytes: int = 16 << 20
    max_rows: int = 100_000  # of a batch
    max_pending_bytes: int = 256 << 20  # of a stream
    max_pending_batches: int = 2_000  # of a stream
    disk_reserve_bytes: int = DISK_RESERVE
    max_concurrent: int = 8  # requests
    read_timeout: float = 30.0  # seconds to receive a body


@dataclass(frozen=True)
class ConvertedBody:
    """The records of a protocol's body as JSON lines by stream.

    `name`: of the batches: the same body has the same, and is stored once; None: each body is new.
    """

    lines: Mapping[str, bytes]
    name: str | None = None


ConvertBody = Callable[[bytes], ConvertedBody]


@dataclass(frozen=True)
class _Backlog:
    """Pending data of a stream as of a time of the monotonic clock."""

    measured_at: float
    batch_count: int
    byte_count: int


class IngestHandler:
    """Accepts batches of rows for the streams with an HTTP source.

    `formats`: of these streams.
    """

    def __init__(
        self,
        home: Path,
        formats: Mapping[str, Format],
        pool: ConnectionPool,
        limits: IngestLimits,
        redacted: Mapping[str, Stream] = MappingProxyType({}),
        landing_url: str | None = None,
    ) -> None:
        """`redacted`: the streams with secrets, which are replaced before a batch is written.

        `landing_url`: of the batches in object storage; None: they are in the home.
        """
        self._home = home
        # Without an embedded database the server may be the first process of a workspace.
        home.mkdir(parents=True, exist_ok=True)
        self._landings = Landings(home, landing_url)
        self._landing_folders = {stream: self._landings.open(stream) for stream in formats}
        self._formats = formats
        self._redacted = redacted
        self._pool = pool
        self._limits = limits
        self._active_requests = 0
        # A parsed body may take forty times its bytes, and threads would not parse faster.
        self._parsing = threading.Lock()
        self._backlogs: dict[str, _Backlog] = {}
        for stream in (*formats, EXTERNAL_ALERTS):
            self._landings.open(stream).remove_unfinished(_NAME_PREFIX)

    async def accept_batch(self, stream: str, request: Request) -> dict[str, Any]:
        """Store the posted batch durably and return the answer. Raises `RequestRejected`."""
        landing = self._landing_folders.get(stream)
        if landing is None:
            raise RequestRejected(404, "no stream of this name accepts posted rows")
        body_format, compression = parse_content_headers(request.headers, self._formats[stream])
        self._check_length(request)
        key = request.headers.get("idempotency-key")
        if key is not None and _KEY_PATTERN.fullmatch(key) is None:
            raise RequestRejected(
                400,
                "invalid Idempotency-Key: use 1 to 128 printable ASCII characters without spaces",
            )
        with self._take_slot():
            await run_in_threadpool(self.check_capacity, landing)
            body = await self._read_body(request)
            return await run_in_threadpool(
                self._store_batch,
                landing,
                body_format=body_format,
                compression=compression,
                key=key,
                body=body,
            )

    def store_record(self, stream: str, line: bytes) -> str:
        """Store a JSON line durably as a batch of its own; returns its name.

        Raises `RequestRejected`.
        """
        landing = self._landing_folders.get(stream)
        if landing is None:
            raise RequestRejected(404, "no stream of this name accepts posted rows")
        self.check_capacity(landing)
        name = f"{_NAME_PREFIX}{secrets.token_hex(16)}"
        self._write(landing, name, _LINES_SUFFIX, line)
        return name

    async def accept_records(
        self, request: Request, streams: Collection[str], convert: ConvertBody
    ) -> None:
        """Store the records of a protocol's body durably, one batch for each of the streams.

        `convert` returns rows as JSON lines by stream, and raises `RequestRejected`. Overload is
        status 503: what is answered with 429, clients of protocols drop.
        """
        self._check_length(request)
        landings = {stream: self._landings.open(stream) for stream in streams}
        with self._take_slot():
            for landing in landings.values():
                await run_in_threadpool(self.check_capacity, landing, status=503)
            body = await self._read_body(request)
            await run_in_threadpool(self._store_records, landings, convert, body)

    def _store_records(
        self, landings: Mapping[str, Landing], convert: ConvertBody, body: bytes
    ) -> None:
        with self._parsing:
            converted = convert(body)
        for stream, lines in converted.lines.items():
            name = f"{_NAME_PREFIX}{converted.name or secrets.token_hex(16)}"
            if converted.name is not None and self._is_stored(landings[stream], name):
                continue
            redacted = self._redact(stream, _LINES_SUFFIX, lines)
            self._write(landings[stream], name, _LINES_SUFFIX, redacted)

    def _is_stored(self, landing: Landing, name: str) -> bool:
        """Whether a batch of JSON lines waits to be archived, or is archived."""
        if landing.has_batch(name, _LINES_SUFFIX):
            return True
        with self._pool.connection() as connection:
            return UnitGateway(connection).is_finished(landing.stream, name)

    def _check_length(self, request: Request) -> None:
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 15 or int(length) > self._limits.max_body_bytes:
            raise self._body_too_large()

    @contextmanager
    def _take_slot(self) -> Iterator[None]:
        """One of the concurrent requests."""
        if self._active_requests >= self._limits.max_concurrent:
            raise RequestRejected(503, "too many concurrent ingest requests", _BUSY_RETRY)
        self._active_requests += 1
        try:
            yield
        finally:
            self._active_requests -= 1

    @property
    def max_unpacked_bytes(self) -> int:
        """Limit of a body without its compression."""
        return self._limits.max_unpacked_bytes

    def disk_is_full(self) -> bool:
        """Whether the disk of the workspace has no more free space than the reserve."""
        return shutil.disk_usage(self._home).free < self._limits.disk_reserve_bytes

    def delete_expired_keys(self) -> None:
        """Delete idempotency keys that are older than their retention period."""
        with self._pool.connection() as connection:
            IdempotencyKeyGateway(connection).delete_expired()

    def _body_too_large(self) -> RequestRejected:
        return RequestRejected(413, f"body too large: limit {self._limits.max_body_bytes} bytes")

    def check_capacity(self, landing: Landing, status: int = 429) -> None:
        """Raise `RequestRejected` if the disk is full or too much data of the stream is pending.

        `status`: of the answer in the second case.
        """
        if self.disk_is_full():
            raise RequestRejected(503, "disk space is low: see `moirae status`", _DISK_RETRY)
        backlog = self._measure_backlog(landing)
        if (
            backlog.byte_count > self._limits.max_pending_bytes
            or backlog.batch_count > self._limits.max_pending_batches
        ):
            raise RequestRejected(
                status,
                f"too many pending batches: {backlog.batch_count} batches of this stream "
                "are not archived yet",
                _BACKLOG_RETRY,
            )

    def _measure_backlog(self, landing: Landing) -> _Backlog:
        """The backlog of a stream, at most `_BACKLOG_MAX_AGE` old."""
        backlog = self._backlogs.get(landing.stream)
        now = time.monotonic()
        if backlog is None or now - backlog.measured_at > _BACKLOG_MAX_AGE:
            batches = landing.pending_batches()
            backlog = _Backlog(
                measured_at=now,
                batch_count=len(batches),
                byte_count=sum(batch.size for batch in batches),
            )
            self._backlogs[landing.stream] = backlog
        return backlog

    async def _read_body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.read_timeout):
                async for part in request.stream():
                    if len(body) + len(part) > self._limits.max_body_bytes:
                        raise self._body_too_large()
                    body += part
        except TimeoutError:
            raise RequestRejected(
                408, f"body not received within {self._limits.read_timeout:.0f} s"
            ) from None
        except ClientDisconnect:
            raise RequestRejected(400, "the body is truncated") from None
        return bytes(body)

    def _store_batch(
        self,
        landing: Landing,
        *,
        body_format: Format,
        compression: str | None,
        key: str | None,
        body: bytes,
    ) -> dict[str, Any]:
        content = body
        if compression is not None:
            content = decompress(body, compression, self._limits.max_unpacked_bytes)
        lines, row_count = split_rows(body_format, content)
        if row_count > self._limits.max_rows:
            raise RequestRejected(413, f"too many rows: limit {self._limits.max_rows} per batch")
        suffix = landed_suffix(stored_format(body_format))
        name = f"{_NAME_PREFIX}{secrets.token_hex(16)}"
        duplicate = False
        if key is not None:
            digest = hashlib.sha256(f"{body_format.name} ".encode() + content).digest()
            # With the digest in its name, other content that reuses an expired key is not taken
            # for a batch that is archived already.
            key_digest = hashlib.sha256(key.encode() + b" " + digest).hexdigest()
            name = f"{_NAME_PREFIX}key-{key_digest[:32]}"
            duplicate = self._is_duplicate(landing, name, suffix, key=key, digest=digest)
        if not duplicate:
            lines = self._redact(landing.stream, suffix, lines)
            self._write(landing, name, suffix, lines)
        return {"stream": landing.stream, "batch": name, "rows": row_count}

    def _write(self, landing: Landing, name: str, suffix: str, lines: bytes) -> None:
        try:
            landing.write_batch(name, suffix, lines)
        except OSError as error:
            raise RequestRejected(
                503, f"cannot write the batch: {error.strerror}", _DISK_RETRY
            ) from error

    def _redact(self, stream: str, suffix: str, lines: bytes) -> bytes:
        declared = self._redacted.get(stream)
        if declared is None:
            return lines
        try:
            stored = landed_format(f"batch{suffix}", self._formats.get(stream, Format("jsonl")))
            return redact_batch(stream, declared, stored, lines)
        except ArchiverError as error:
            raise RequestRejected(400, f"the body cannot be read: {error}") from error

    def _is_duplicate(
        self, landing: Landing, name: str, suffix: str, *, key: str, digest: bytes
    ) -> bool:
        """Whether the batch was accepted before. Raises `RequestRejected` for a reused key."""
        with self._pool.connection() as connection:
            keys = IdempotencyKeyGateway(connection)
            if keys.insert(landing.stream, key, digest):
                return False
            stored_digest = keys.find_digest(landing.stream, key)
            if stored_digest is not None and stored_digest != digest:
                raise RequestRejected(409, "Idempotency-Key already used with different content")
            if landing.has_batch(name, suffix):
                return True
            return UnitGateway(connection).is_finished(landing.stream, name)
