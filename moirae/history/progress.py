"""Progress of views, archived derived streams and corpus indexes, for `status`."""

from typing import Any

import sql
from archiver.ingest import Catalog
from archiver.storage import StorageRoot
from archiver.times import optional_datetime
from moirae.deployments import RuleRegistry
from moirae.history.corpus_indexes import closed_until, corpora_of_rules
from recall.corpora import Corpora
from sql.rules import ViewGateway
from sql.similarity import CorpusGateway, PartGateway


def list_view_progress(connection: sql.Connection) -> dict[str, dict[str, Any]]:
    """The progress of the views of each rule.

    `chunks`: numbers of chunks, found and failed, by chunk state. `events`, `corpus`: events found,
    and those of them in the corpus. `seconds`: time spent. `error`: the last error, or None.
    """
    progress: dict[str, dict[str, Any]] = {}
    for row in ViewGateway(connection).list_progress():
        empty = {"chunks": {}, "events": 0, "corpus": 0, "seconds": 0.0, "error": None}
        rule = progress.setdefault(row.rule, empty)
        rule["chunks"][row.state] = {
            "chunks": row.chunks,
            "found": row.with_view,
            "failed": row.failed,
        }
        rule["events"] += row.events
        rule["corpus"] += row.corpus
        rule["seconds"] += row.seconds
        rule["error"] = rule["error"] or row.error
    return progress


def list_index_progress(connection: sql.Connection, root: StorageRoot) -> list[dict[str, Any]]:
    """For each corpus of desired rules: events of closed chunks, how many the index holds, and
    its parts by the recall process that holds them in memory.
    """
    end = closed_until(Catalog(connection).chunks())
    gateway = CorpusGateway(connection)
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in PartGateway(connection).list_held():
        entry = {"holder": row.holder, "parts": row.parts, "bytes": row.bytes}
        parts.setdefault(row.corpus, []).append(entry)
    progress: list[dict[str, Any]] = []
    for key in corpora_of_rules(RuleRegistry(connection).rules_with_recalls()):
        counts = gateway.count_indexed(
            key.rule,
            key.version,
            number=Corpora(connection, root).saved_number(key) or 0,
            before=optional_datetime(end),
        )
        progress.append(
            {
                "rule": key.rule,
                "contexts": key.contexts,
                "events": counts.events,
                "written": counts.indexed,
                "parts": parts.get(key.to_json(), []),
            }
        )
    return progress


def format_progress(progress: dict[str, Any]) -> str:
    """The progress of one rule as text: `1 of 3 chunks, 63 events`."""
    counts = progress["chunks"].values()
    found_chunks = sum(count["found"] for count in counts)
    chunks = sum(count["chunks"] for count in counts)
    failed = sum(count["failed"] for count in counts)
    text = f"{found_chunks:,} of {_format_count(chunks, 'chunk')}"
    if failed:
        text += f" ({failed:,} failed)"
    return f"{text}, {_format_count(progress['events'], 'event')}"


def _format_count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
