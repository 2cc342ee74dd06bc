"""How far the past of rules is found, and what is prepared for their recalls, for people."""

from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.catalog import Catalog
from archiver.place import Root
from archiver.times import from_micros
from moirae.deployments.registry import Registry
from moirae.views.indexes import closed_to, compared
from recall.corpora import Corpora


def pasts(connection: Connection[Any]) -> dict[str, dict[str, Any]]:
    """For each rule that was added to a history, by the state of its chunks: how many, found, failed.

    With the events found there, how many of them are in the corpus, seconds of work, and the last error.
    """
    found: dict[str, dict[str, Any]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(sql.load("views")["progress"]):
            rule = found.setdefault(
                row["rule"], {"chunks": {}, "events": 0, "corpus": 0, "seconds": 0.0, "error": None}
            )
            rule["chunks"][row["state"]] = {name: row[name] for name in ("chunks", "found", "failed")}
            for name in ("events", "corpus", "seconds"):
                rule[name] += row[name]
            rule["error"] = rule["error"] or row["error"]
    return found


def derived(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Archived derived streams: their chunks and rows, and the last error."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load("streams")["progress"]).fetchall()


def indexes(connection: Connection[Any], root: Root) -> list[dict[str, Any]]:
    """The corpora of desired rules on disk: of the events of closed chunks, how many are in the index."""
    end = closed_to(Catalog(connection).chunks())
    found = []
    for name in compared(Registry(connection).desired()):
        written = Corpora(connection, root).written(name)
        values = {"rule": name.rule, "version": name.version, "before": end and from_micros(end)}
        row = connection.execute(sql.load("contexts")["in_index"], {**values, "number": written or 0}).fetchone()
        assert row is not None
        found.append({"rule": name.rule, "contexts": name.contexts, "events": row[0], "written": row[1]})
    return found


def words(past: dict[str, Any]) -> str:
    """The same in a line."""
    parts = []
    for state in ("present", "recent", "old"):
        if state in past["chunks"]:
            chunks = past["chunks"][state]
            failed = f", {chunks['failed']} failed" if chunks["failed"] else ""
            parts.append(f"{chunks['found']} of {chunks['chunks']} {state}{failed}")
    return f"{'; '.join(parts)} chunks: {past['events']:,} events"
