"""The ledger does not grow for ever: source units that will not be read again become one row of their stream.

The counters of that row are the sums of theirs, so the accounting holds as before, in total where it held for each.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from psycopg import Connection

import sql
from archiver.times import from_micros

_QUERIES = sql.load("folding")

# By the clock, since a unit was archived: who handed it over may still ask what became of it; a key is known so long.
MIN_UNIT_AGE, PUSH_KEY_LIFETIME = timedelta(hours=1), timedelta(days=7)


class LedgerCompaction:
    """On the connection of the ledger's one writer. `least`: for so long no unit is folded."""

    def __init__(self, connection: Connection[Any], min_age: timedelta = MIN_UNIT_AGE) -> None:
        self._connection = connection
        self._min_age = min_age
        # Where in the ledger the next look at a stream begins.
        self._resume_after: dict[str, int] = {}

    def compact(self, stream: str, before: int, is_gone: Callable[[str], bool], limit: int) -> bool:
        """Fold some units with rows before `sealed` (microseconds of event time) only, and whose source is `gone`, by
        name. Returns whether there may be more."""
        values = {
            "stream": stream,
            "after": self._resume_after.get(stream, 0),
            "sealed": from_micros(before),
        }
        spans = {"least": self._min_age, "keys": max(PUSH_KEY_LIFETIME, self._min_age)}
        found = self._connection.execute(
            _QUERIES["foldable"], {**values, **spans, "limit": limit}
        ).fetchall()
        ids = [number for number, name in found if is_gone(name)]
        if ids:
            self._connection.execute(_QUERIES["fold"], {"stream": stream, "ids": ids})
        more = len(found) == limit
        self._resume_after[stream] = found[-1][0] if more else 0
        return more and bool(ids)  # the rest is looked at another time

    def drop_dead_letters(self, older_than: timedelta, limit: int) -> bool:
        """Drop some dead letters that are older than `keep` by the clock. Returns whether there may be more."""
        rows = self._connection.execute(
            _QUERIES["drop_letters"], {"keep": older_than, "limit": limit}
        ).fetchall()
        return sum(int(n) for (n,) in rows) == limit

    def delete_chunks_before(self, oldest: int) -> None:
        """Chunks have left up to this one, which stands for them from now on."""
        with self._connection.transaction():
            self._connection.execute(_QUERIES["forget_chunks"], {"oldest": oldest})
            self._connection.execute(_QUERIES["begin_with"], {"oldest": oldest})
