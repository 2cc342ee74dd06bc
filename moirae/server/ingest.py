"""Rows that are posted: checked, unpacked within limits, made durable in the landing folder, then
answered.

What a line holds is not judged here: that is the archive's part, which keeps what it cannot take
as a dead letter.
"""

import asyncio
import hashlib
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

import sql
from moirae.errors import RequestRejected
from moirae.runtime import DISK_RESERVE, LandingFolder
from moirae.server.pool import ConnectionPool

BodyFormat = Literal["json", "jsonl", "csv"]
"""One value, a list or an object; a row on each line; the same with a header line."""

_KEY_PATTERN = re.compile(r"[\x21-\x7e]{1,128}")
_FORMATS_BY_MEDIA_TYPE: dict[str, BodyFormat] = {
    "application/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}
# Packed parts that a body may be joined of.
_MAX_GZIP_MEMBERS = 64


@dataclass(frozen=True)
class IngestLimits:
    """What is accepted. Bytes: of a body, of the same unpacked, of what a stream may have waiting,
    and what stays free on the disk; rows of a body; batches of a stream that may wait; bodies read
    at once; seconds for one.
    """

    max_body_bytes: int = 8 << 20
    max_unpacked_bytes: int = 16 << 20
    max_rows: int = 100_000
    max_pending_bytes: int = 256 << 20
    max_pending_batches: int = 2_000
    disk_reserve_bytes: int = DISK_RESERVE
    max_concurrent: int = 8
    read_timeout: float = 30.0


class IngestHandler:
    """Takes batches for the streams that are posted to."""

    def __init__(
        self, home: Path, streams: list[str], pool: ConnectionPool, limits: IngestLimits
    ) -> None:
        self._home = home
        # With a database of one's own nobody else may have made it yet.
        home.mkdir(parents=True, exist_ok=True)
        self._landing_folders = {name: LandingFolder(home, name) for name in streams}
        self._pool = pool
        self._limits = limits
        self._active_reads = 0
        self._backlog: dict[str, tuple[float, int, int]] = {}
        for landing in self._landing_folders.values():
            landing.remove_unfinished("push-")

    async def accept_batch(self, stream: str, request: Request) -> dict[str, Any]:
        """The answer to a post, given when its rows are durable. Raises `Refused`."""
        landing = self._landing_folders.get(stream)
        if landing is None:
            raise RequestRejected(404, "no stream of that name takes posted rows")
        form, packed = _parse_content_headers(request.headers)
        key = request.headers.get("idempotency-key")
        if key is not None and _KEY_PATTERN.fullmatch(key) is None:
            raise RequestRejected(
                400, "an Idempotency-Key is 1 to 128 printable ASCII characters, without spaces"
            )
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._limits.max_body_bytes:
            raise RequestRejected(413, f"a body has at most {self._limits.max_body_bytes} bytes")
        if self._active_reads >= self._limits.max_concurrent:
            raise RequestRejected(503, "too many posts at once", 1)
        self._active_reads += 1
        try:
            await run_in_threadpool(self._check_capacity, landing)
            body = await self._read_body(request)
            return await run_in_threadpool(self._store_batch, landing, form, packed, key, body)
        finally:
            self._active_reads -= 1

    def _check_capacity(self, landing: LandingFolder) -> None:
        """Raises `Refused` where the disk or the live process has enough to do."""
        if self.disk_is_full():
            raise RequestRejected(503, "the disk is full but for its reserve", 30)
        seen, count, size = self._backlog.get(landing.stream, (0.0, 0, 0))
        if time.monotonic() - seen > 0.5:
            waiting = landing.pending_batches()
            count, size = len(waiting), sum(landed.size for landed in waiting)
            self._backlog[landing.stream] = (time.monotonic(), count, size)
        if size > self._limits.max_pending_bytes or count > self._limits.max_pending_batches:
            raise RequestRejected(429, f"{count} batches of this stream wait to be archived", 5)

    def disk_is_full(self) -> bool:
        """Whether nothing but the reserve is left where the workspace lies."""
        return shutil.disk_usage(self._home).free < self._limits.disk_reserve_bytes

    async def _read_body(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.read_timeout):
                async for part in request.stream():
                    if len(body) + len(part) > self._limits.max_body_bytes:
                        raise RequestRejected(
                            413, f"a body has at most {self._limits.max_body_bytes} bytes"
                        )
                    body += part
        except TimeoutError:
            raise RequestRejected(
                408, f"a body comes within {self._limits.read_timeout:.0f} seconds"
            ) from None
        return bytes(body)

    def _store_batch(
        self, landing: LandingFolder, form: BodyFormat, packed: bool, key: str | None, body: bytes
    ) -> dict[str, Any]:
        content = decompress(body, self._limits.max_unpacked_bytes) if packed else body
        lines, rows = to_lines(form, content)
        if rows > self._limits.max_rows:
            raise RequestRejected(413, f"a batch has at most {self._limits.max_rows} rows")
        digest = hashlib.sha256(f"{form} ".encode() + content).digest()
        suffix = ".csv" if form == "csv" else ".jsonl"
        name = f"push-{secrets.token_hex(16)}"
        if key is not None:
            # The digest is part of the name: should the key be forgotten and used again, nothing is
            # taken for archived.
            name = f"push-key-{hashlib.sha256(key.encode() + b' ' + digest).hexdigest()[:32]}"
            if self._is_duplicate(landing, name, suffix, key, digest):
                return {"stream": landing.stream, "batch": name, "rows": rows}
        try:
            landing.write_batch(name, suffix, lines)
        except OSError as error:
            raise RequestRejected(503, f"the batch cannot be kept: {error.strerror}", 30) from error
        return {"stream": landing.stream, "batch": name, "rows": rows}

    def _is_duplicate(
        self, landing: LandingFolder, name: str, suffix: str, key: str, digest: bytes
    ) -> bool:
        """Whether the batch was accepted before. Raises `Refused` where another one was, under the
        same key.
        """
        with self._pool.connection() as connection:
            keys = sql.IdempotencyKeyGateway(connection)
            if keys.insert(landing.stream, key, digest):
                return False
            stored_digest = keys.find_digest(landing.stream, key)
            if stored_digest is not None and stored_digest != digest:
                raise RequestRejected(409, "this Idempotency-Key was used with other content")
            if landing.has_batch(name, suffix):
                return True
            return sql.UnitGateway(connection).is_finished(landing.stream, name)

    def delete_expired_keys(self) -> None:
        """Keys of long ago need not be known any more."""
        with self._pool.connection() as connection:
            sql.IdempotencyKeyGateway(connection).delete_expired()


def _parse_content_headers(headers: Mapping[str, str]) -> tuple[BodyFormat, bool]:
    """The content's form, and whether it is packed."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _FORMATS_BY_MEDIA_TYPE:
        raise RequestRejected(
            415, f"the Content-Type is one of {', '.join(_FORMATS_BY_MEDIA_TYPE)}"
        )
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise RequestRejected(415, "the Content-Encoding is gzip, or there is none")
    return _FORMATS_BY_MEDIA_TYPE[kind], encoding == "gzip"


def decompress(body: bytes, limit: int) -> bytes:
    """The content of a gzip body, of one or more members. Raises `Refused` before it grows beyond
    the limit.
    """
    content = bytearray()
    for _ in range(_MAX_GZIP_MEMBERS):
        if not body:
            return bytes(content)
        member = zlib.decompressobj(wbits=31)
        try:
            content += member.decompress(body, limit + 1 - len(content))
        except zlib.error as error:
            raise RequestRejected(400, "the body is not gzip, or it is damaged") from error
        if len(content) > limit:
            raise RequestRejected(413, f"an unpacked body has at most {limit} bytes")
        if not member.eof:
            raise RequestRejected(400, "the gzip body breaks off")
        body = member.unused_data
    raise RequestRejected(400, f"the gzip body is joined of more than {_MAX_GZIP_MEMBERS} parts")


def to_lines(body_format: BodyFormat, content: bytes) -> tuple[bytes, int]:
    """Content with a line for each row, and how many there are. Raises `Refused` for none, or what
    is not JSON.
    """
    if body_format == "json":
        try:
            value = orjson.loads(content)
        except ValueError as error:
            raise RequestRejected(400, f"the body is not JSON: {str(error)[:100]}") from None
        rows = value if isinstance(value, list) else [value]
        content, count = b"".join(orjson.dumps(row) + b"\n" for row in rows), len(rows)
    else:
        count = sum(1 for line in content.split(b"\n") if line.strip()) - (body_format == "csv")
    if count < 1:
        raise RequestRejected(400, "the body holds no rows")
    return content, count
