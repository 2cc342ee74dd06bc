"""Relations read from a PostgreSQL table."""

import hashlib
from typing import Any

import orjson

from archiver.formats import JSONL
from moirae.config import Relation, TableSource
from moirae.errors import MoiraeError
from moirae.live.sources.relation_poll import PollingRelationReader
from moirae.live.sources.relation_rows import (
    RelationContent,
    decode_rows,
    identity_columns,
    to_rows,
)
from sql.archive import read_source_table

_MAX_ROWS = 100_000  # rows: a relation is loaded as a whole


class TableRelationReader(PollingRelationReader):
    """Polls a table. Its fingerprint is a hash of its rows."""

    def __init__(self, name: str, relation: Relation, source: TableSource) -> None:
        super().__init__(name, f"table {source.table}", source.every.total_seconds())
        self._relation = relation
        self._source = source

    def fetch(self, fingerprint: str) -> RelationContent | None:
        rows = self._query_rows()
        digest = hashlib.sha256(orjson.dumps(rows, option=orjson.OPT_UTC_Z)).hexdigest()
        return None if digest == fingerprint else RelationContent(rows, digest)

    def _query_rows(self) -> list[dict[str, Any]]:
        """The rows, by key. They are read as JSON and decoded like the lines of a file."""
        lines = read_source_table(
            self._source.database.get_secret_value(),
            table=self._source.table,
            columns=list(dict.fromkeys(self._relation.field_names)),
            limit=_MAX_ROWS + 1,
        )
        if len(lines) > _MAX_ROWS:
            raise MoiraeError(f"too many rows: a relation has at most {_MAX_ROWS}")
        decoded = decode_rows(self._name, self._relation, JSONL, lines, [])
        if decoded.refused_lines:
            refused = decoded.refused_lines[0]
            raise MoiraeError(f"row {refused.raw[:200].decode()}: {refused.detail}")
        rows = to_rows(decoded)
        key_columns = identity_columns(self._relation)
        keys = [list(map(row.__getitem__, key_columns)) for row in rows]
        if len(set(map(tuple, keys))) < len(keys):
            raise MoiraeError(f"duplicate {', '.join(key_columns)}")
        return sorted(rows, key=lambda row: orjson.dumps(list(map(row.__getitem__, key_columns))))
