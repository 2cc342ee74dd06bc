"""The corpora of deployed rules, kept up with what live settles: from the archive, then from the newest rows."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.admission import column
from archiver.catalog import Catalog
from archiver.chunk import locate
from archiver.table import NumberedTable
from recall.similarity.index import Index, Past, facts

_QUERIES = sql.load("contexts")
TABLE = ("contexts", ("contexts", "surroundings", "number"))


class Corpora:
    """One index for each rule's version and choice of contexts, read when it is first asked for."""

    def __init__(self, connection: Connection[Any], root: Path) -> None:
        self._connection = connection
        self._root = root
        self._indexes: dict[tuple[str, str, tuple[str, ...]], Index] = {}

    def index(self, rule: str, version: str, contexts: tuple[str, ...]) -> Index:
        """The corpus with all that is settled by now."""
        known = self._indexes.get((rule, version, contexts))
        if known is None:
            known = self._indexes[rule, version, contexts] = self._archived(rule, version, contexts)
        self._follow(known, rule, version, contexts)
        return known

    def _archived(self, rule: str, version: str, contexts: tuple[str, ...]) -> Index:
        index = Index()
        if not NumberedTable.exists(self._root, TABLE[0]):
            return index
        rows = NumberedTable(self._root, *TABLE).read(rule, version)
        ts = column(rows, "ts").tolist()
        chunks: dict[int, list[Past]] = {}
        texts = (rows[name].to_pylist() for name in ("eid", "number", "contexts", "chunk"))
        for moment, eid, number, found, chunk in zip(ts, *texts, strict=True):
            past = Past(moment, eid, int(number), facts(orjson.loads(found), contexts))
            chunks.setdefault(chunk, []).append(past)
        for chunk, events in chunks.items():
            index.add(chunk, events)
        return index

    def _follow(self, index: Index, rule: str, version: str, contexts: tuple[str, ...]) -> None:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(
                _QUERIES["tail"], {"after": index.number, "rule": rule, "version": version}
            ).fetchall()
        if not rows:
            return
        catalog = Catalog(self._connection).chunks()
        parts = locate(catalog, np.array([row["ts"] for row in rows], dtype=np.int64)).tolist()
        for part in set(parts):
            here = [row for row, chunk in zip(rows, parts, strict=True) if chunk == part]
            index.add(part, [Past(r["ts"], str(r["eid"]), r["number"], facts(r["contexts"], contexts)) for r in here])
