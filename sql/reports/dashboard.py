"""The views of the schema `dashboard`, as JSON rows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sql.gateway import Gateway

Rows = list[Mapping[str, Any]]


class DashboardGateway(Gateway):
    """The first rows of each view. `since`, `until`: a range of event time; None: open."""

    queries = "dashboard"

    def list_alerts(self, since: datetime | None, until: datetime | None, limit: int) -> Rows:
        """Alerts that started in a range, newest first."""
        return self._column("alerts", since=since, until=until, limit=limit)

    def list_recalls(self, since: datetime | None, until: datetime | None, limit: int) -> Rows:
        """Recalls that were requested in a range of wall-clock time, newest first."""
        return self._column("recalls", since=since, until=until, limit=limit)

    def list_similar_events(
        self, since: datetime | None, until: datetime | None, limit: int, eid: UUID | None
    ) -> Rows:
        """Similar past events of the events in a range, or of one event, by rank."""
        return self._column("similar_events", since=since, until=until, limit=limit, eid=eid)

    def list_streams(self, limit: int) -> Rows:
        """Streams with their counters."""
        return self._column("streams", limit=limit)

    def list_chunks(self, since: datetime | None, until: datetime | None, limit: int) -> Rows:
        """Chunks that overlap a range, newest first."""
        return self._column("chunks", since=since, until=until, limit=limit)
