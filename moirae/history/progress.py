"""How far the past of rules is found, and what is prepared for their recalls, for people."""

from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.ingest import Catalog
from archiver.storage import StorageRoot
from archiver.times import from_micros
from moirae.deployments import RuleRegistry
from moirae.history.corpus_indexes import closed_until, corpora_of_rules
from recall.corpora import Corpora


def list_view_progress(connection: Connection[Any]) -> dict[str, dict[str, Any]]:
    """For each rule that was added to a history, by the state of its chunks: how many, found, failed.

    With the events found there, how many of them are in the corpus, seconds of work, and the last error.
    """
    found: dict[str, dict[str, Any]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(sql.load("views")["progress"]):
            rule = found.setdefault(
                row["rule"], {"chunks": {}, "events": 0, "corpus": 0, "seconds": 0.0, "error": None}
            )
            rule["chunks"][row["state"]] = {
                name: row[name] for name in ("chunks", "found", "failed")
            }
            for name in ("events", "corpus", "seconds"):
                rule[name] += row[name]
            rule["error"] = rule["error"] or row["error"]
    return found


def list_derived_progress(connection: Connection[Any]) -> list[dict[str, Any]]:
    """Archived derived streams: their chunks and rows, and the last error."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load("streams")["progress"]).fetchall()


def list_index_progress(connection: Connection[Any], root: StorageRoot) -> list[dict[str, Any]]:
    """The corpora of desired rules on disk: of the events of closed chunks, how many are in the index."""
    end = closed_until(Catalog(connection).chunks())
    found = []
    for name in corpora_of_rules(RuleRegistry(connection).desired_rules()):
        written = Corpora(connection, root).saved_number(name)
        values = {"rule": name.rule, "version": name.version, "before": end and from_micros(end)}
        row = connection.execute(
            sql.load("contexts")["in_index"], {**values, "number": written or 0}
        ).fetchone()
        assert row is not None
        found.append(
            {"rule": name.rule, "contexts": name.contexts, "events": row[0], "written": row[1]}
        )
    return found


def format_progress(past: dict[str, Any]) -> str:
    """The same in a line."""
    parts = []
    for state in ("present", "recent", "old"):
        if state in past["chunks"]:
            chunks = past["chunks"][state]
            failed = f", {chunks['failed']} failed" if chunks["failed"] else ""
            parts.append(f"{chunks['found']} of {chunks['chunks']} {state}{failed}")
    return f"{'; '.join(parts)} chunks: {past['events']:,} events"
