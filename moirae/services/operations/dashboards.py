"""Plain JSON arrays of the views in the schema `dashboard`, for Grafana and other dashboards."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import Field

from moirae.errors import UsageError
from moirae.services.models import DEFAULT_PAGE_ROWS, MAX_PAGE_ROWS, Arguments, Time
from moirae.services.operation import operation
from sql.reports import DashboardGateway

if TYPE_CHECKING:
    from moirae.services.workspace import LocalWorkspace

View = Literal["alerts", "recalls", "similar_events", "streams", "chunks"]


_FILTERS: dict[View, tuple[str, ...]] = {
    "alerts": ("since", "until"),
    "recalls": ("since", "until"),
    "similar_events": ("since", "until", "eid"),
    "streams": (),
    "chunks": ("since", "until"),
}


class ViewQuery(Arguments):
    """Which rows of a view."""

    since: Time | None = Field(
        None,
        description="Only rows at this time or later: start of an alert, request of a recall, event "
        "with similar ones, range of a chunk.",
    )
    until: Time | None = Field(None, description="Only rows before this time.")
    eid: UUID | None = Field(None, description="Of `similar_events`: only of this event.")
    limit: int = Field(
        DEFAULT_PAGE_ROWS, ge=1, le=MAX_PAGE_ROWS, description="Maximum number of rows."
    )


@operation("GET", "/dashboard/{view}", role="viewer")
def read_view(workspace: "LocalWorkspace", view: View, query: ViewQuery) -> list[dict[str, Any]]:
    """Read rows of a documented view as a plain JSON array. A filter that the view does not have is
    refused.
    """
    for name in ("since", "until", "eid"):
        if getattr(query, name) is not None and name not in _FILTERS[view]:
            raise UsageError(f"{name}: the view {view} has no such filter")
    gateway = DashboardGateway(workspace.connection)
    since, until, limit = query.since, query.until, query.limit
    readers: dict[View, Callable[[], Any]] = {
        "alerts": lambda: gateway.list_alerts(since, until, limit),
        "recalls": lambda: gateway.list_recalls(since, until, limit),
        "similar_events": lambda: gateway.list_similar_events(since, until, limit, query.eid),
        "streams": lambda: gateway.list_streams(limit),
        "chunks": lambda: gateway.list_chunks(since, until, limit),
    }
    return list(readers[view]())
