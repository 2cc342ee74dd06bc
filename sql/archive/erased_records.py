"""Where the database may hold what is erased from the archive: one list of all tables.

A record goes with its event (`EVENT_RECORDS`), or as soon as it has an erased value
(`DELETED_TABLES`), or has the value replaced (`MASKED_TABLES`, and tables that the lists do not
name). `EXEMPT_TABLES` hold names that are declared, hashes and numbers.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg.sql import SQL, Composable, Identifier
from psycopg.types.json import Jsonb

from sql.connection import Connection

EVENT_RECORDS: dict[str, tuple[str, ...]] = {
    "alerts": ("eid",),  # with notes, links and history
    "judgements": ("eid", "past_eid"),
    "shown_forecasts": ("eid",),
    "tasks": ("eid",),  # with their answers
    "row_revisions": ("eid",),
    "recalled_events": ("eid",),  # with stages
    "contexts": ("eid",),
    "events": ("eid",),
}
"""Records that go with an event, by the columns that name it; in the order of deletion."""

IDENTIFYING_COLUMNS: dict[str, tuple[str, ...]] = {
    "events": ("key", "attributes"),
    "alerts": ("key", "labels"),
    "tasks": ("event",),
    "recalled_events": ("event",),
}
"""An event with an erased value in one of these is erased."""

DELETED_TABLES = frozenset(
    {
        "backtests",
        "closed_keys",
        "lost_verdicts",
        "relation_versions",
        "requests",
        "rule_errors",
        "silences",
    }
)
"""Records that mean nothing without the value."""

MASKED_TABLES = frozenset(
    {
        "alert_history",
        "alert_notes",
        "alerts",
        "audit",
        "backups",
        "column_rewrites",
        "commands",
        "contexts",
        "deployments",
        "derived_chunks",
        "events",
        "external_alerts",
        "forecast_records",
        "incident_alerts",
        "incident_decisions",
        "judgements",
        "lost_rows",
        "maintenance_errors",
        "notifications",
        "notify_groups",
        "notify_log",
        "notify_state",
        "process_exits",
        "process_metrics",
        "processes",
        "recalled_events",
        "receiver_states",
        "relation_errors",
        "revisions",
        "row_revisions",
        "rule_files",
        "set_aside",
        "shown_forecasts",
        "source_errors",
        "stages",
        "streams",
        "summaries",
        "tasks",
        "views",
    }
)

EXEMPT_TABLES: dict[str, str] = {
    "action_links": "a digest, and names of receivers",
    "calibrations": "numbers; those of rules with erased events are deleted",
    "changes": "IDs",
    "chunks": "states",
    "corpus_parts": "declared names",
    "dead_letters": "deleted by their bytes, and counted",
    "erased_events": "the erasure itself",
    "erased_rows": "keyed hashes",
    "erased_values": "the erasure itself, until it is done",
    "erasures": "keyed hashes",
    "external_rules": "names of declared alerts",
    "file_checks": "names of files of the archive",
    "flows": "declared names",
    "incidents": "states",
    "incident_moves": "IDs",
    "growing_files": "hashes, and names of source files, which the command names",
    "held_relations": "fingerprints",
    "learned_models": "models; those of rules with erased events are deleted",
    "login_codes": "hashes",
    "lost_records": "names of topics",
    "notification_alerts": "IDs",
    "notify_held": "IDs",
    "part_comparisons": "deleted when open recalls begin again",
    "partitions": "numbers",
    "preparations": "names of tasks",
    "pushes": "idempotency keys and digests",
    "relation_declarations": "declared names",
    "relation_sources": "fingerprints",
    "revision_streams": "declared names",
    "rule_candidates": "names of rules",
    "rules": "declarations, which the command names if they have a value",
    "schema_migrations": "names",
    "sessions": "hashes",
    "skipped_records": "reasons",
    "stored_bytes": "numbers",
    "tag_names": "tags, which people choose",
    "tokens": "names of tokens",
    "topics": "names of topics",
    "units": "names of source units, which the command names",
    "unread_input": "times",
    "unsettled_reads": "IDs",
    "waiting_processes": "names of machines",
    "workspace": "the key of the hashes",
}

_TEXT_TYPES = ("text", "jsonb", "text[]")
_COLUMNS = SQL("""
SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0
    AND NOT a.attisdropped AND a.attgenerated = ''
    AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary
        AND a.attnum = ANY(i.indkey))
ORDER BY c.relname, a.attnum""")
_FETCHED_ROWS = 500
_MAX_PATTERNS = 8  # one has 200 values; with more, all records are read

Mask = Callable[[Any], Any]
"""A value, text or JSON, without what is erased."""


@dataclass(frozen=True)
class ErasedText:
    """What to look for. `patterns`: regular expressions of PostgreSQL; `mask`: removes it from texts
    and JSON; `is_in`, `are_in`: whether a text or bytes have it.
    """

    patterns: Sequence[str]
    mask: Mask
    is_in: Callable[[str], bool]
    are_in: Callable[[bytes], bool]


class ErasedRecords:
    """Removes events and values from all tables. Each method may be repeated."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_columns(self) -> dict[str, dict[str, str]]:
        """The columns of all tables that may hold texts, with their types; those of primary keys and
        computed ones are left out.
        """
        columns: dict[str, dict[str, str]] = {}
        for table, column, column_type in self._connection.execute(_COLUMNS):
            if column_type in _TEXT_TYPES:
                columns.setdefault(table, {})[column] = column_type
        return columns

    def find_events(self, text: ErasedText) -> set[str]:
        """The events with an erased value in what identifies them."""
        events: set[str] = set()
        for table, columns in IDENTIFYING_COLUMNS.items():
            for eid, *values in self._find(table, columns, _join(columns), text, "eid"):
                if any(text.mask(value) != value for value in values):
                    events.add(str(eid))
        return events

    def delete_events(self, events: Collection[str]) -> dict[str, int]:
        """Delete the records of events, and messages about erased alerts only; count by table."""
        counts: dict[str, int] = {}
        ids = sorted(events)
        if not ids:
            return counts
        counts["notifications"] = self._delete_messages(ids)
        self._delete_learned(ids)
        for table, columns in EVENT_RECORDS.items():
            condition = SQL(" OR ").join(
                SQL("{} = ANY(%(events)s::uuid[])").format(Identifier(column)) for column in columns
            )
            statement = SQL("DELETE FROM {} WHERE {}").format(Identifier(table), condition)
            counts[table] = self._connection.execute(statement, {"events": ids}).rowcount
        return {table: count for table, count in counts.items() if count}

    def _delete_messages(self, events: Sequence[str]) -> int:
        statement = SQL("""
            DELETE FROM notifications n WHERE EXISTS (SELECT FROM notification_alerts a
                WHERE a.notification = n.id)
            AND NOT EXISTS (SELECT FROM notification_alerts a WHERE a.notification = n.id
                AND a.alert_id NOT IN (SELECT id FROM alerts WHERE eid = ANY(%(events)s::uuid[])))""")
        return self._connection.execute(statement, {"events": list(events)}).rowcount

    def _delete_learned(self, events: Sequence[str]) -> None:
        """Models of rules that have learned from the events: they are learned again."""
        for table in ("learned_models", "calibrations"):
            statement = SQL("""
                DELETE FROM {} m USING contexts c WHERE c.eid = ANY(%(events)s::uuid[])
                    AND c.rule = m.rule AND c.version = m.version""").format(Identifier(table))
            self._connection.execute(statement, {"events": list(events)})

    def restart_recalls(self) -> int:
        """Have open recalls begin again: what they have computed so far may hold erased rows."""
        self._connection.execute(SQL("DELETE FROM part_comparisons"))
        statement = SQL("""
            UPDATE tasks SET held = NULL, pieces = NULL, piece_count = NULL, corpus = NULL,
                model = NULL, next = 0, failed = 0, skipped = 0, seen = '[]',
                state = CASE WHEN state = 'running' THEN 'waiting' ELSE state END
            WHERE ended_at IS NULL AND (held IS NOT NULL OR pieces IS NOT NULL)""")
        return self._connection.execute(statement).rowcount

    def delete_letters(self, text: ErasedText) -> int:
        """Delete dead letters that hold a value; their units count them as dropped."""
        keys: list[tuple[int, int]] = []
        with self._connection.transaction(), self._connection.cursor("letters") as cursor:
            cursor.execute("SELECT unit_id, line, raw, detail FROM dead_letters")
            for unit, line, raw, detail in cursor:
                if text.are_in(bytes(raw)) or text.mask(detail) != detail:
                    keys.append((unit, line))
        with self._connection.transaction():
            for unit, line in keys:
                self._connection.execute(
                    "DELETE FROM dead_letters WHERE unit_id = %s AND line = %s", (unit, line)
                )
                self._connection.execute(
                    "UPDATE units SET dropped = dropped + 1 WHERE id = %s", (unit,)
                )
        return len(keys)

    def clean(self, text: ErasedText) -> dict[str, int]:
        """Delete or mask all other records with a value; count them by table."""
        counts: dict[str, int] = {}
        for table, types in self.list_columns().items():
            if table in EXEMPT_TABLES:
                continue
            if table in DELETED_TABLES:
                changed = self._delete(table, text)
            else:
                changed = self._mask(table, types, text)
            if changed:
                counts[table] = changed
        return counts

    def _delete(self, table: str, text: ErasedText) -> int:
        """Delete the records of a table with a value, wherever it is: in the key, too."""
        deleted = 0
        statement = SQL("DELETE FROM {} WHERE ctid = ANY(%(addresses)s::tid[])").format(
            Identifier(table)
        )
        # Again, until none is there: the server may have changed a record, which moves it.
        while addresses := list(self._find(table, (), SQL("to_jsonb(t)::text"), text, "ctid")):
            arguments = {"addresses": [address for (address,) in addresses]}
            deleted += self._connection.execute(statement, arguments).rowcount
        return deleted

    def _mask(self, table: str, types: dict[str, str], text: ErasedText) -> int:
        columns = tuple(types)
        changed = 0
        for row_address, *values in self._find(table, columns, _join(columns), text, "ctid"):
            changes: dict[str, Any] = {}
            for column, value in zip(columns, values, strict=True):
                masked = text.mask(value)
                if masked != value:
                    changes[column] = masked
            if changes:
                self._update(table, types, row_address, changes)
                changed += 1
        return changed

    def _update(
        self, table: str, types: dict[str, str], row_address: str, changes: dict[str, Any]
    ) -> None:
        assignments = SQL(", ").join(
            SQL("{} = {}").format(Identifier(column), SQL(f"%({column})s")) for column in changes
        )
        statement = SQL("UPDATE {} SET {} WHERE ctid = %(address)s::tid").format(
            Identifier(table), assignments
        )
        values = {
            column: Jsonb(value, dumps=_dump) if types[column] == "jsonb" else value
            for column, value in changes.items()
        }
        self._connection.execute(statement, {**values, "address": row_address})

    def _find(
        self, table: str, columns: Sequence[str], searched: Composable, text: ErasedText, key: str
    ) -> Iterator[tuple[Any, ...]]:
        """Records with a value in what is searched: `key` (as text), and some columns.

        Many patterns cost more than reading all records: PostgreSQL keeps 32 compiled ones.
        """
        names = map(Identifier, columns)
        selected = SQL(", ").join([SQL("{}::text").format(Identifier(key)), *names])
        statement = SQL("SELECT {} FROM {} t WHERE {} ~ %(pattern)s").format(
            selected, Identifier(table), searched
        )
        if len(text.patterns) <= _MAX_PATTERNS:
            for pattern in text.patterns:
                yield from self._connection.execute(statement, {"pattern": pattern}).fetchall()
            return
        statement = SQL("SELECT {}, {} FROM {} t").format(selected, searched, Identifier(table))
        with self._connection.transaction(), self._connection.cursor("records") as cursor:
            cursor.itersize = _FETCHED_ROWS
            for *values, searched_text in cursor.execute(statement):
                if searched_text is not None and text.is_in(searched_text):
                    yield tuple(values)


def _join(columns: Sequence[str]) -> Composable:
    """Columns as one text."""
    texts = SQL(", ").join(SQL("{}::text").format(Identifier(column)) for column in columns)
    return SQL("concat_ws(E'\\n', {})").format(texts)


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
