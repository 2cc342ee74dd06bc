"""Retention: deletes rows of all kinds that are no longer needed."""

from datetime import datetime, timedelta
from typing import Any

from sql.gateway import Gateway


class RetentionGateway(Gateway):
    """Deletes rows; the methods with a `limit` delete up to that many, and return how many.

    `before` is event time; `min_age`, in wall-clock time, is how long rows are retained at least.
    Rows that people have written about (notes, judgements) remain, with all that belongs to them, but
    for `delete_old_alerts`.
    """

    queries = "retention"

    def delete_alerts(self, before: datetime, min_age: timedelta, limit: int) -> int:
        """Delete alerts that ended before `before`, unless they have open tasks."""
        return self._count("delete_alerts", before=before, min_age=min_age, limit=limit)

    def delete_old_alerts(self, before: datetime, min_age: timedelta, limit: int) -> int:
        """Delete alerts that ended before `before` with all that belongs to them, also what people wrote.

        Alerts with open tasks stay. Their events and contexts go with their rows.
        """
        return self._count("delete_old_alerts", before=before, min_age=min_age, limit=limit)

    def delete_incidents(self, min_age: timedelta) -> None:
        """Delete incidents whose alerts have all been deleted."""
        self._execute("delete_incidents", min_age=min_age)
        self._execute("delete_merged_incidents")

    def delete_tasks(self, before_micros: int, min_age: timedelta, limit: int) -> int:
        """Delete ended tasks, with their revisions, of events that belong to no alert.

        `before_micros`: of the event, in microseconds.
        """
        return self._count(
            "delete_tasks", before_micros=before_micros, min_age=min_age, limit=limit
        )

    def delete_recalled_events(self, before: datetime, min_age: timedelta, limit: int) -> int:
        """Delete ended events without tasks, with their revisions, which are in the archive."""
        return self._count("delete_recalled_events", before=before, min_age=min_age, limit=limit)

    def delete_contexts(
        self, before: datetime, *, archived_to: int, min_age: timedelta, limit: int
    ) -> int:
        """Delete contexts of events without alerts and tasks, and record the highest corpus number.

        `archived_to`: the last corpus number that is in the archive.
        """
        return self._count(
            "delete_contexts",
            before=before,
            archived_to=archived_to,
            min_age=min_age,
            limit=limit,
        )

    def delete_events(
        self, before: datetime, *, archived_to: int, min_age: timedelta, limit: int
    ) -> int:
        """Delete settled events without alerts, tasks and contexts.

        `archived_to`: the last sequence number that is in the archive.
        """
        return self._count(
            "delete_events", before=before, archived_to=archived_to, min_age=min_age, limit=limit
        )

    def delete_changes(self, min_age: timedelta, limit: int) -> int:
        """Delete old changes for live clients, oldest first."""
        return self._count("delete_changes", min_age=min_age, limit=limit)

    def delete_audit(self, min_age: timedelta, limit: int) -> int:
        """Delete old lines of the audit log."""
        return self._count("delete_audit", min_age=min_age, limit=limit)

    def delete_relation_versions(self, before: datetime, limit: int) -> int:
        """Delete versions of rows of relations that were replaced before `before`."""
        return self._count("delete_relation_versions", before=before, limit=limit)

    def delete_commands(self, min_age: timedelta, limit: int) -> int:
        """Delete executed commands."""
        return self._count("delete_commands", min_age=min_age, limit=limit)

    def delete_views(self, last_chunk: int, min_age: timedelta) -> None:
        """Delete views of chunks up to `last_chunk`, and of rule versions stopped `min_age` ago."""
        self._execute("delete_views", chunk=last_chunk, min_age=min_age)

    def delete_calibrations(self, min_age: timedelta) -> None:
        """Delete calibrations of rule versions stopped `min_age` ago."""
        self._execute("delete_calibrations", min_age=min_age)

    def delete_learned_models(self, keep: timedelta, min_age: timedelta) -> None:
        """Delete models that were built longer than `keep` ago, except the newest of each recall.

        The newest is deleted once the version of its rule was stopped `min_age` ago.
        """
        self._execute("delete_learned_models", keep=keep, min_age=min_age)

    def delete_deployments(self, min_age: timedelta) -> None:
        """Delete rule versions stopped `min_age` ago that no other row refers to."""
        self._execute("delete_deployments", min_age=min_age)

    def oldest_derived_chunk(self) -> int | None:
        """The oldest chunk with an archived derived stream; None without any."""
        chunk: int | None = self._value("find_oldest_derived_chunk")
        return chunk

    def _count(self, statement: str, **values: Any) -> int:
        return self._execute(statement, **values).rowcount
