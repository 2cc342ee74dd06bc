"""Routes of protocols by which other systems send data, for tokens with the role `source`."""

from datetime import UTC, datetime

from fastapi import FastAPI, Request
from starlette.responses import Response

from moirae.config import EXTERNAL_ALERTS
from moirae.errors import RequestRejected
from moirae.server.ingest import ConvertedBody, IngestHandler
from moirae.server.protocols.alerts import AlertRows, convert_alerts
from moirae.server.responses import require_stream
from moirae.server.route_table import RouteAccess

_ALERTS = "/api/v2/alerts"

ROUTES = [RouteAccess("POST", _ALERTS, "source", reads_body=True, overload_status=503)]


def add_protocol_routes(app: FastAPI, ingest_handler: IngestHandler) -> list[RouteAccess]:
    """Add the routes. They are described by the documents of their protocols."""

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

    return ROUTES
