"""`/api/v1/norms`: what is normal where alerts fire, as series for Prometheus."""

from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from archiver.clock import utc_now
from moirae.config import parse_duration
from moirae.errors import RequestRejected
from moirae.inspect import make_norm_metrics
from moirae.server.pool import ConnectionPool
from moirae.server.route_table import RouteAccess
from moirae.server.routes.exposition import expose
from sql.reports import NormGateway

NORMS_PATH = "/api/v1/norms"
_MAX_ALERTS = 5_000


def add_norms_route(app: FastAPI, pool: ConnectionPool) -> list[RouteAccess]:
    """Add the route."""

    @app.get(
        NORMS_PATH,
        tags=["service"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        openapi_extra={"x-required-role": "viewer"},
    )
    def norms(
        request: Request,
        rule: Annotated[
            str | None,
            Query(max_length=200, description="Only of this rule, with or without its group."),
        ] = None,
        last: Annotated[
            str,
            Query(max_length=40, description="Also alerts that fired so long ago by the clock."),
        ] = "1d",
        limit: Annotated[
            int, Query(ge=1, le=_MAX_ALERTS, description="Maximum number of alerts, newest first.")
        ] = 500,
    ) -> Response:
        """Answers of recalls about the newest alert of each key, and its values.

        As OpenMetrics or in Prometheus's text format.
        """
        try:
            since = utc_now() - parse_duration(last)
        except (ValueError, OverflowError) as error:
            raise RequestRejected(400, f"last: {error}") from None
        with pool.connection() as connection:
            rows = NormGateway(connection).list_last(since=since, rule=rule, limit=limit)
        return expose(request, make_norm_metrics(rows))

    return [RouteAccess("GET", NORMS_PATH, "viewer")]
