"""Routes of protocols by which other systems send data, for tokens with the role `source`."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from moirae.config import EXTERNAL_ALERTS, RemoteWriteSource, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import ConvertedBody, IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.alerts import AlertRows, convert_alerts
from moirae.server.protocols.remote_write import SeriesReader, WrittenSamples, decompress_block
from moirae.server.protocols.write_messages import load_messages
from moirae.server.responses import read_identity, require_stream
from moirae.server.route_table import RouteAccess
from sql.archive import SkippedRecordsGateway, SkippedRow

_ALERTS = "/api/v2/alerts"
_REMOTE_WRITE = "/api/v1/write"

ROUTES = [
    RouteAccess("POST", path, "source", reads_body=True, overload_status=503)
    for path in (_ALERTS, _REMOTE_WRITE)
]


def add_protocol_routes(
    app: FastAPI, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> list[RouteAccess]:
    """Add the routes. They are described by the documents of their protocols."""
    remote_write = RemoteWrite(settings, pool, ingest_handler)

    @app.post(_ALERTS, include_in_schema=False)
    async def post_alerts(request: Request) -> Response:
        require_stream(request.scope, EXTERNAL_ALERTS)
        rows = AlertRows(b"", [])

        def convert(body: bytes) -> ConvertedBody:
            nonlocal rows
            rows = convert_alerts(body, datetime.now(UTC))
            return ConvertedBody({EXTERNAL_ALERTS: rows.lines} if rows.lines else {})

        await ingest_handler.accept_records(request, [EXTERNAL_ALERTS], convert)
        if rows.errors:
            raise RequestRejected(400, "; ".join(rows.errors))
        return Response()

    @app.post(_REMOTE_WRITE, include_in_schema=False)
    async def write_samples(request: Request) -> Response:
        await remote_write.accept(request)
        return Response(status_code=204)

    return ROUTES


class RemoteWrite:
    """Accepts requests of remote write 1.0."""

    def __init__(
        self, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
    ) -> None:
        self._pool = pool
        self._ingest_handler = ingest_handler
        self._matches = {
            name: stream.source.match
            for name, stream in settings.streams.items()
            if isinstance(stream.source, RemoteWriteSource)
        }
        self._readers: dict[str | None, SeriesReader] = {}

    async def accept(self, request: Request) -> None:
        """Store the samples of a request durably. Raises `RequestRejected`."""
        stream = read_identity(request.scope).stream
        reader = self._find_reader(stream)
        _check_headers(request)
        skipped: Counter[tuple[str, str]] = Counter()

        def convert(body: bytes) -> ConvertedBody:
            content = decompress_block(body, self._ingest_handler.max_unpacked_bytes)
            written: WrittenSamples = reader.read(content)
            skipped.update(written.skipped)
            lines = {name: b"".join(rows) for name, rows in written.lines.items() if rows}
            # A repeated request is recognised by its content: the protocol has no key.
            return ConvertedBody(lines, f"body-{hashlib.sha256(content).hexdigest()[:32]}")

        streams: Sequence[str] = [stream] if stream is not None else list(self._matches)
        await self._ingest_handler.accept_records(request, streams, convert)
        if skipped:
            await run_in_threadpool(self._count_skipped, skipped)

    def _find_reader(self, stream: str | None) -> SeriesReader:
        """Reads what a token may send, for one stream or all. Raises `RequestRejected`."""
        reader = self._readers.get(stream)
        if reader is not None:
            return reader
        matches = self._matches
        if stream is not None:
            matches = {name: match for name, match in matches.items() if name == stream}
        if not matches:
            message = "no stream takes samples: declare one with source: {remote_write: true}"
            raise RequestRejected(404, message)
        return self._readers.setdefault(stream, SeriesReader(load_messages(), matches))

    def _count_skipped(self, skipped: Counter[tuple[str, str]]) -> None:
        with self._pool.connection() as connection:
            SkippedRecordsGateway(connection).add(
                SkippedRow(stream, reason, count) for (stream, reason), count in skipped.items()
            )


def _check_headers(request: Request) -> None:
    if request.headers.get("content-encoding", "").strip().lower() != "snappy":
        raise RequestRejected(415, "unsupported Content-Encoding: use snappy")
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/x-protobuf" or "v2" in parameters:
        raise RequestRejected(415, "unsupported Content-Type: use application/x-protobuf (1.0)")
