"""Routes of protocols by which other systems send data, for tokens with the role `source`."""

from datetime import UTC, datetime

from fastapi import FastAPI, Request
from starlette.responses import Response

from moirae.config import EXTERNAL_ALERTS, OtlpSource, RemoteWriteSource, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import ConvertedBody, IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.alerts import AlertRows, convert_alerts
from moirae.server.protocols.otlp import OtlpReader, Signal
from moirae.server.protocols.otlp_messages import load_messages as load_otlp_messages
from moirae.server.protocols.remote_write import SeriesReader, decompress_block
from moirae.server.protocols.write_messages import load_messages
from moirae.server.request_body import decompress
from moirae.server.responses import read_identity, require_stream
from moirae.server.route_table import RouteAccess
from moirae.server.routes.pushed_input import PushedInput

_ALERTS = "/api/v2/alerts"
_REMOTE_WRITE = "/api/v1/write"
_OTLP_LOGS = "/v1/logs"
_OTLP_METRICS = "/v1/metrics"
_OTLP_MEDIA_TYPES = ("application/x-protobuf", "application/json")

ROUTES = [
    RouteAccess("POST", path, "source", reads_body=True, overload_status=503)
    for path in (_ALERTS, _REMOTE_WRITE, _OTLP_LOGS, _OTLP_METRICS)
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

    logs = Otlp("logs", settings, pool, ingest_handler)
    metrics = Otlp("metrics", settings, pool, ingest_handler)

    @app.post(_OTLP_LOGS, include_in_schema=False)
    async def export_logs(request: Request) -> Response:
        return await logs.accept(request)

    @app.post(_OTLP_METRICS, include_in_schema=False)
    async def export_metrics(request: Request) -> Response:
        return await metrics.accept(request)

    return ROUTES


class RemoteWrite:
    """Accepts requests of remote write 1.0."""

    def __init__(
        self, settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
    ) -> None:
        selectors = {
            name: stream.source.match
            for name, stream in settings.streams.items()
            if isinstance(stream.source, RemoteWriteSource)
        }
        self._input = PushedInput(
            pool,
            ingest_handler,
            selectors,
            lambda taken: SeriesReader(load_messages(), taken),
            "no stream takes samples: declare one with source: {remote_write: true}",
        )

    async def accept(self, request: Request) -> None:
        """Store the samples of a request durably. Raises `RequestRejected`."""
        _check_headers(request)
        await self._input.accept(request, decompress_block, SeriesReader.read)


class Otlp:
    """Accepts requests of OTLP for one signal."""

    def __init__(
        self,
        signal: Signal,
        settings: Settings,
        pool: ConnectionPool,
        ingest_handler: IngestHandler,
    ) -> None:
        selectors = {
            name: stream.source.match
            for name, stream in settings.streams.items()
            if isinstance(stream.source, OtlpSource) and stream.source.otlp == signal
        }
        self._input = PushedInput(
            pool,
            ingest_handler,
            selectors,
            lambda taken: OtlpReader(load_otlp_messages(), signal, taken),
            f"no stream takes {signal}: declare one with source: {{otlp: {signal}}}",
        )

    async def accept(self, request: Request) -> Response:
        """Store the records of a request durably. Raises `RequestRejected`."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in _OTLP_MEDIA_TYPES:
            types = " or ".join(_OTLP_MEDIA_TYPES)
            raise RequestRejected(415, f"unsupported Content-Type: use {types}")
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise RequestRejected(415, "unsupported Content-Encoding: use gzip")
        is_json = media_type == "application/json"

        def unpack(body: bytes, max_bytes: int) -> bytes:
            return decompress(body, "gzip", max_bytes) if encoding == "gzip" else body

        reader = self._input.find_reader(read_identity(request.scope).stream)
        pushed = await self._input.accept(
            request, unpack, lambda taken, content: taken.read(content, is_json)
        )
        return Response(reader.make_response(pushed, is_json), media_type=media_type)


def _check_headers(request: Request) -> None:
    if request.headers.get("content-encoding", "").strip().lower() != "snappy":
        raise RequestRejected(415, "unsupported Content-Encoding: use snappy")
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/x-protobuf" or "v2" in parameters:
        raise RequestRejected(415, "unsupported Content-Type: use application/x-protobuf (1.0)")
