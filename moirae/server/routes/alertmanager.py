"""`/api/v2`: Alertmanager's API, for `amtool`, Karma and others that speak to Alertmanager."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, FastAPI, Query, Request
from starlette.responses import Response

from archiver.clock import utc_now
from moirae.config import Settings
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response, read_identity
from moirae.server.route_table import RouteAccess
from moirae.services import LocalWorkspace, alertmanager

_PREFIX = "/api/v2"

ROUTES = [
    *(
        RouteAccess("GET", f"{_PREFIX}/{path}", "viewer")
        for path in ("status", "receivers", "alerts", "alerts/groups", "silences")
    ),
    RouteAccess("GET", _PREFIX + "/silence/{silence}", "viewer"),
    RouteAccess("POST", _PREFIX + "/silences", "operator", has_json_body=True),
    RouteAccess("DELETE", _PREFIX + "/silence/{silence}", "operator"),
]
Filters = Annotated[list[str] | None, Query(max_length=50)]


def _read_selection(
    active: bool = True,
    silenced: bool = True,
    inhibited: bool = True,
    filter: Filters = None,
    receiver: str | None = None,
) -> alertmanager.ListedAlerts:
    return alertmanager.ListedAlerts(active, silenced, inhibited, filter or (), receiver)


Selection = Annotated[alertmanager.ListedAlerts, Depends(_read_selection)]


def add_alertmanager_routes(
    app: FastAPI, settings: Settings, pool: ConnectionPool
) -> list[RouteAccess]:
    """Add the routes. They are described by Alertmanager's own OpenAPI document."""
    started_at = utc_now()

    @contextmanager
    def open_workspace(request: Request) -> Iterator[LocalWorkspace]:
        author = read_identity(request.scope).name
        with pool.connection() as connection:
            yield LocalWorkspace(settings=settings, connection=connection, author=author, via="api")

    add: dict[str, Any] = {"include_in_schema": False}

    @app.get(f"{_PREFIX}/status", **add)
    def status(request: Request) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.describe_status(workspace, started_at))

    @app.get(f"{_PREFIX}/receivers", **add)
    def receivers(request: Request) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.list_receivers(workspace))

    @app.get(f"{_PREFIX}/alerts", **add)
    def alerts(request: Request, selection: Selection) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.list_alerts(workspace, selection))

    @app.get(f"{_PREFIX}/alerts/groups", **add)
    def groups(request: Request, selection: Selection) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.list_groups(workspace, selection))

    @app.get(f"{_PREFIX}/silences", **add)
    def silences(request: Request, filter: Filters = None) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.list_silences(workspace, filter or ()))

    @app.get(_PREFIX + "/silence/{silence}", **add)
    def silence_by_id(request: Request, silence: UUID) -> Response:
        with open_workspace(request) as workspace:
            return json_response(alertmanager.get_silence(workspace, silence))

    @app.post(f"{_PREFIX}/silences", **add)
    def put_silence(request: Request, body: alertmanager.AlertmanagerSilence) -> Response:
        with open_workspace(request) as workspace, workspace.connection.transaction():
            silence_id = alertmanager.put_silence(workspace, body)
            workspace.record_use("alertmanager.put_silence", {"body": body})
        return json_response({"silenceID": str(silence_id)})

    @app.delete(_PREFIX + "/silence/{silence}", **add)
    def expire_silence(request: Request, silence: UUID) -> Response:
        with open_workspace(request) as workspace, workspace.connection.transaction():
            alertmanager.expire_silence(workspace, silence)
            workspace.record_use("alertmanager.expire_silence", {"silence": silence})
        return Response()

    return ROUTES
