"""Progress of views, archived derived streams and corpus indexes, for `status`."""

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
    """The progress of the views of each rule.

    `chunks`: numbers of chunks, found and failed, by chunk state. `events`, `corpus`: events found,
    and those of them in the corpus. `seconds`: time spent. `error`: the last error, or None.
    """
    progress: dict[str, dict[str, Any]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(sql.load("views")["progress"]):
            empty = {"chunks": {}, "events": 0, "corpus": 0, "seconds": 0.0, "error": None}
            rule = progress.setdefault(row["rule"], empty)
            counts = {name: row[name] for name in ("chunks", "found", "failed")}
            rule["chunks"][row["state"]] = counts
            for name in ("events", "corpus", "seconds"):
                rule[name] += row[name]
            rule["error"] = rule["error"] or row["error"]
    return progress


def list_derived_progress(connection: Connection[Any]) -> list[dict[str, Any]]:
    """The chunks, rows and last error of each archived derived stream."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load("streams")["progress"]).fetchall()


def list_index_progress(connection: Connection[Any], root: StorageRoot) -> list[dict[str, Any]]:
    """For each corpus of desired rules: events of closed chunks, and how many the index holds."""
    end = closed_until(Catalog(connection).chunks())
    query = sql.load("contexts")["in_index"]
    progress: list[dict[str, Any]] = []
    for key in corpora_of_rules(RuleRegistry(connection).desired_rules()):
        values = {
            "rule": key.rule,
            "version": key.version,
            "before": end and from_micros(end),
            "number": Corpora(connection, root).saved_number(key) or 0,
        }
        row = connection.execute(query, values).fetchone()
        assert row is not None
        events, written = row
        progress.append(
            {"rule": key.rule, "contexts": key.contexts, "events": events, "written": written}
        )
    return progress


def format_progress(progress: dict[str, Any]) -> str:
    """The progress of one rule as one line of text."""
    parts: list[str] = []
    for state in ("present", "recent", "old"):
        chunks = progress["chunks"].get(state)
        if chunks is None:
            continue
        part = f"{chunks['found']} of {chunks['chunks']} {state}"
        if chunks["failed"]:
            part += f", {chunks['failed']} failed"
        parts.append(part)
    return f"{'; '.join(parts)} chunks: {progress['events']:,} events"
