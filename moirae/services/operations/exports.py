"""Export stored data, row by row."""

from collections.abc import Callable, Generator, Iterable
from operator import attrgetter
from typing import Any, Literal, get_args

import sql
from sql.alerts import AlertGateway
from sql.events import ContextGateway, EventGateway
from sql.recalls import ExportedRecallRow, RevisionGateway
from sql.stages import RowRevisionGateway, StageRow

ExportKind = Literal["events", "alerts", "contexts", "similar", "recalls"]
EXPORT_KINDS: tuple[ExportKind, ...] = get_args(ExportKind)

EXPORT_COLUMNS: dict[ExportKind, tuple[str, ...]] = {
    "events": ("eid", "rule", "ts", "key", "attributes"),
    "alerts": (
        "id",
        "eid",
        "rule",
        "key",
        "labels",
        "state",
        "starts_at",
        "ends_at",
        "history",
        "history_final",
    ),
    "contexts": ("eid", "rule", "ts", "contexts", "surroundings"),
    "similar": ("query", "rank", "event", "score"),
    "recalls": (
        "id",
        "eid",
        "rule",
        "recall",
        "state",
        "revision",
        "final",
        "coverage",
        "answer",
        "estimates",
        "key",
        "error",
        "forecast",
    ),
}


def export_rows(
    connection: sql.Connection, kind: ExportKind, recall: str | None = None
) -> Generator[dict[str, Any], None, None]:
    """All rows of an export, oldest first; read while they are consumed.

    Recalls are followed by the stages of `then`.

    `recall`: of `similar`, only recalls with this name.
    """
    readers: dict[ExportKind, Callable[[], Iterable[Any]]] = {
        "events": EventGateway(connection).export,
        "alerts": AlertGateway(connection).export,
        "contexts": ContextGateway(connection).export,
        "similar": lambda: RevisionGateway(connection).export_hits(recall),
        "recalls": RevisionGateway(connection).export_last,
    }
    columns = EXPORT_COLUMNS[kind]
    values = attrgetter(*columns)
    for record in readers[kind]():
        if kind == "recalls":
            yield _describe_recall(record)
        else:
            yield dict(zip(columns, values(record), strict=True))
    if kind == "recalls":
        yield from map(_describe_stage, RowRevisionGateway(connection).export_stages())


def _describe_stage(stage: StageRow) -> dict[str, Any]:
    """A line of the export: the present rows of a stage about an event."""
    row: dict[str, Any] = dict.fromkeys(EXPORT_COLUMNS["recalls"])
    row |= {name: getattr(stage, name) for name in ("eid", "rule", "state", "revision", "error")}
    row |= {"recall": stage.name, "final": stage.state != "running", "answer": stage.rows}
    row["key"] = stage.key
    return row


def _describe_recall(recall: ExportedRecallRow) -> dict[str, Any]:
    """A line of the export; an SQL answer has its columns in the order of its SELECT."""
    from recall.query import order_columns

    row = {name: getattr(recall, name) for name in recall.__slots__}
    text = row.pop("sql")
    if not text or not row["answer"]:
        return row
    row["answer"] = order_columns(text, row["answer"])
    row["estimates"] = order_columns(text, row["estimates"] or [])
    return row
