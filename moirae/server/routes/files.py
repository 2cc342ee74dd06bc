"""Routes that stream: exports of stored data, and files for a stream."""

import asyncio
import io
import os
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Annotated, BinaryIO

import pyarrow as pa
from fastapi import FastAPI, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import sql
from archiver.errors import ArchiverError
from archiver.formats import FORMAT_NAMES
from moirae.config import Settings, Stream
from moirae.errors import RequestRejected
from moirae.runtime import connect_database
from moirae.runtime.storage import Landings, redact_file
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response, read_identity
from moirae.server.route_table import RouteAccess
from moirae.services import API_PREFIX, shaped_text, to_json
from moirae.services.operations.archive import check_declared
from moirae.services.operations.exports import ExportKind, export_rows
from sql.access import AuditGateway
from sql.rules import DeploymentGateway, LostVerdictGateway

_EXPORT = f"{API_PREFIX}/export/{{kind}}"
_UPLOAD = f"{API_PREFIX}/streams/{{stream}}/files"
_MAX_UPLOADS = 4  # at once
_MAX_UPLOAD_BYTES = 1 << 30
_MAX_REDACTED_BYTES = 64 << 20  # of a file that is read before it is written
_DISK_CHECK_BYTES = 16 << 20  # of an upload between checks of the free disk space
_CHUNK_TIMEOUT = 30.0  # seconds without data of an upload
_UPLOAD_TIMEOUT = 3600.0  # seconds to receive a file
_MAX_EXPORTS = 4  # at once; each holds a connection
_EXPORT_TIMEOUT = "-c statement_timeout=10min"
_EXPORT_BATCH_BYTES = 1 << 16
_BUSY_RETRY = 5  # seconds after which a client may retry
_DISK_RETRY = 30  # seconds
_UPLOAD_PREFIX = "ingest-"
_SUFFIX = shaped_text(
    rf"\.({'|'.join(FORMAT_NAMES)})(\.gz|\.zst)?",
    ".jsonl, .csv, .parquet or another format of streams, each also with .gz or .zst",
    max_length=20,
)
_STEM = shaped_text(r"[A-Za-z0-9_]*", "up to 60 letters, digits and underscores", max_length=60)

ROUTES = [
    RouteAccess("GET", _EXPORT, "viewer"),
    RouteAccess("POST", _UPLOAD, "operator", reads_body=True),
]


class UploadedFile(BaseModel):
    """A file that waits to be archived."""

    batch: str
    bytes: int


def add_file_routes(
    app: FastAPI, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> list[RouteAccess]:
    """Add the routes of exports and uploads."""
    exports = threading.BoundedSemaphore(_MAX_EXPORTS)
    uploads = threading.BoundedSemaphore(_MAX_UPLOADS)

    @app.get(
        _EXPORT,
        tags=["export"],
        response_class=StreamingResponse,
        responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
        openapi_extra={"x-required-role": "viewer"},
    )
    async def export(
        kind: Annotated[ExportKind, Path(description="What to export.")],
        recall: Annotated[
            str | None,
            Query(max_length=200, pattern=r"^[^\x00]*$", description="Of `similar`: this recall."),
        ] = None,
    ) -> Response:
        """Export stored data as JSON lines, oldest first.

        The header `Moirae-Incomplete-Rules` is the number of rules that have not evaluated all rows.
        """
        if not exports.acquire(blocking=False):
            raise RequestRejected(503, "too many concurrent exports", _BUSY_RETRY)
        try:
            connection, incomplete = await run_in_threadpool(_open_export, settings)
        except BaseException:
            exports.release()
            raise
        response = _ExportResponse(connection, exports, _stream_rows(connection, kind, recall))
        response.headers["Moirae-Incomplete-Rules"] = str(incomplete)
        return response

    @app.post(
        _UPLOAD,
        tags=["archive"],
        status_code=202,
        response_model=UploadedFile,
        openapi_extra={
            "x-required-role": "operator",
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            },
        },
    )
    async def upload(
        request: Request,
        stream: Annotated[str, Path(description="A declared stream of any source.")],
        suffix: Annotated[
            str,
            *_SUFFIX,
            Query(
                description="Format and compression of the file: `.jsonl`, `.csv`, `.parquet` or "
                "another format of streams, each also with `.gz` or `.zst`.",
            ),
        ],
        name: Annotated[
            str,
            *_STEM,
            Query(
                description="Part of the batch's name: up to 60 letters, digits and underscores.",
            ),
        ] = "file",
    ) -> Response:
        """Copy a file into a stream. The body is the file, with content type
        `application/octet-stream`. 202 means that it is durable. Recorded in the audit log; a
        repetition is another batch, whose rows are recognised by their `id`.
        """
        check_declared(settings, stream)
        landing = Landings.of(settings).open(stream)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        if media_type.lower() != "application/octet-stream":
            raise RequestRejected(415, "unsupported Content-Type: use application/octet-stream")
        if "idempotency-key" in request.headers:
            raise RequestRejected(400, "Idempotency-Key is not supported for files")
        if not uploads.acquire(blocking=False):
            raise RequestRejected(503, "too many concurrent uploads", _BUSY_RETRY)
        try:
            await run_in_threadpool(ingest_handler.check_capacity, landing)
            batch = f"{_UPLOAD_PREFIX}{name}-{secrets.token_hex(16)}"
            author = read_identity(request.scope).name

            def publish(opened: AbstractContextManager[BinaryIO], size: int) -> None:
                arguments = {"stream": stream, "batch": batch, "bytes": size}
                with pool.connection() as connection, connection.transaction():
                    AuditGateway(connection).insert(author, "api", "archive.upload_file", arguments)
                # After the commit: a file without its line would be archived although the client
                # got an error. A line without its file, as after a crash here, does no harm.
                opened.__exit__(None, None, None)

            disk_is_full = ingest_handler.disk_is_full

            async def copy(file: BinaryIO) -> int:
                return await _copy_body(request, file, disk_is_full, _MAX_UPLOAD_BYTES)

            declared = settings.streams[stream]
            stored_suffix = suffix
            if declared.redact:
                body = io.BytesIO()
                await _copy_body(request, body, disk_is_full, _MAX_REDACTED_BYTES)
                redacted, stored_suffix = await run_in_threadpool(
                    _redact, stream, declared, suffix, body.getvalue()
                )

                async def copy(file: BinaryIO) -> int:
                    return file.write(redacted)

            size = await _store_upload(copy, landing.open_batch(batch, stored_suffix), publish)
        finally:
            uploads.release()
        return json_response({"batch": batch, "bytes": size}, 202)

    return ROUTES


def _open_export(settings: Settings) -> tuple[sql.Connection, int]:
    """A connection, and the number of rules that failed, are in quarantine or lost verdicts."""
    connection = connect_database(settings, "server export", _EXPORT_TIMEOUT)
    try:
        rules = {loss.rule for loss in LostVerdictGateway(connection).count_by_rule()}
        for deployment in DeploymentGateway(connection).list_active():
            if deployment.state == "quarantined" or deployment.error is not None:
                rules.add(deployment.rule)
    except BaseException:
        connection.close()
        raise
    return connection, len(rules)


class _ExportResponse(StreamingResponse):
    """Rows of a connection, which is closed when the response has ended, even if it never began."""

    def __init__(
        self,
        connection: sql.Connection,
        exports: threading.BoundedSemaphore,
        content: Iterator[bytes],
    ) -> None:
        super().__init__(content, media_type="application/x-ndjson")
        self._connection = connection
        self._exports = exports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._connection.close()
            self._exports.release()


def _stream_rows(
    connection: sql.Connection, kind: ExportKind, recall: str | None
) -> Iterator[bytes]:
    """The rows as JSON lines, several at a time."""
    pending = bytearray()
    for row in export_rows(connection, kind, recall):
        pending += to_json(row) + b"\n"
        if len(pending) > _EXPORT_BATCH_BYTES:
            yield bytes(pending)
            pending.clear()
    if pending:
        yield bytes(pending)


async def _store_upload(
    copy: Callable[[BinaryIO], Awaitable[int]],
    opened: AbstractContextManager[BinaryIO],
    publish: Callable[[AbstractContextManager[BinaryIO], int], None],
) -> int:
    """Write a file to a batch and publish it; returns its bytes. Raises `RequestRejected`."""
    try:
        file = await run_in_threadpool(opened.__enter__)
        try:
            size = await copy(file)
            # Before `publish`, so that little can fail once the audit log has the upload.
            await run_in_threadpool(_sync, file)
            await run_in_threadpool(publish, opened, size)
        except BaseException as error:
            _discard(opened, error)
            raise
    except OSError as error:
        reason = f"cannot write the file: {error.strerror}"
        raise RequestRejected(503, reason, _DISK_RETRY) from error
    return size


def _redact(name: str, declared: Stream, suffix: str, content: bytes) -> tuple[bytes, str]:
    """See `redact_file`. Raises `RequestRejected`."""
    try:
        return redact_file(name, declared, suffix, content)
    except (OSError, ArchiverError, pa.ArrowInvalid) as error:
        raise RequestRejected(400, f"the file cannot be read: {error}") from error


async def _copy_body(
    request: Request, file: BinaryIO, disk_is_full: Callable[[], bool], max_bytes: int
) -> int:
    """Write the body to a file; returns its bytes. Raises `RequestRejected`."""
    size = 0
    checked_size = 0  # when free disk space was checked
    deadline = time.monotonic() + _UPLOAD_TIMEOUT
    parts = request.stream().__aiter__()
    while True:
        remaining = deadline - time.monotonic()
        try:
            if remaining <= 0:
                raise TimeoutError
            async with asyncio.timeout(min(_CHUNK_TIMEOUT, remaining)):
                part = await anext(parts)
        except StopAsyncIteration:
            return size
        except TimeoutError:
            reason = f"no data for {_CHUNK_TIMEOUT:.0f} s"
            if remaining <= _CHUNK_TIMEOUT:
                reason = f"file not received within {_UPLOAD_TIMEOUT:.0f} s"
            raise RequestRejected(408, reason) from None
        except ClientDisconnect:
            raise RequestRejected(400, "the body is truncated") from None
        size += len(part)
        if size > max_bytes:
            raise RequestRejected(413, f"file too large: limit {max_bytes} bytes")
        if size - checked_size >= _DISK_CHECK_BYTES:
            checked_size = size
            if await run_in_threadpool(disk_is_full):
                raise RequestRejected(503, "disk space is low: see `moirae status`", _DISK_RETRY)
        await run_in_threadpool(file.write, part)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _discard(opened: AbstractContextManager[BinaryIO], error: BaseException) -> None:
    """Delete the file of a failed upload; the error may be from publishing it."""
    with suppress(BaseException):
        opened.__exit__(type(error), error, error.__traceback__)
