"""Routes of protocols by which other systems send data, for tokens with the role `source`."""

from fastapi import FastAPI, Request
from starlette.responses import Response

from archiver.clock import utc_now
from moirae.config import EXTERNAL_ALERTS, Settings
from moirae.errors import RequestRejected
from moirae.server.ingest import ConvertedBody, IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.protocols.alerts import AlertRows, convert_alerts
from moirae.server.responses import require_stream
from moirae.server.route_table import RouteAccess
from moirae.server.routes.loki import Loki
from moirae.server.routes.otlp import Otlp
from moirae.server.routes.remote_write import RemoteWrite

_ALERTS = "/api/v2/alerts"
_REMOTE_WRITE = "/api/v1/write"
_OTLP_LOGS = "/v1/logs"
_OTLP_METRICS = "/v1/metrics"
_LOKI = "/loki/api/v1/push"

_RPC_PATHS = (_OTLP_LOGS, _OTLP_METRICS)

ROUTES = [
    RouteAccess(
        "POST",
        path,
        "source",
        reads_body=True,
        overload_status=503,
        has_rpc_errors=path in _RPC_PATHS,
    )
    for path in (_ALERTS, _REMOTE_WRITE, _LOKI, *_RPC_PATHS)
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
            rows = convert_alerts(body, utc_now())
            return ConvertedBody({EXTERNAL_ALERTS: rows.lines} if rows.lines else {})

        await ingest_handler.accept_records(request, [EXTERNAL_ALERTS], convert)
        if rows.errors:
            raise RequestRejected(400, "; ".join(rows.errors))
        return Response()

    @app.post(_REMOTE_WRITE, include_in_schema=False)
    async def write_samples(request: Request) -> Response:
        return await remote_write.accept(request)

    loki = Loki(settings, pool, ingest_handler)

    @app.post(_LOKI, include_in_schema=False)
    async def push_entries(request: Request) -> Response:
        return await loki.accept(request)

    logs = Otlp("logs", settings, pool, ingest_handler)
    metrics = Otlp("metrics", settings, pool, ingest_handler)

    @app.post(_OTLP_LOGS, include_in_schema=False)
    async def export_logs(request: Request) -> Response:
        return await logs.accept(request)

    @app.post(_OTLP_METRICS, include_in_schema=False)
    async def export_metrics(request: Request) -> Response:
        return await metrics.accept(request)

    return ROUTES
