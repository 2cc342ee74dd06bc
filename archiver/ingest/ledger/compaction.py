"""Compaction of the ingest ledger: old source units are merged into one row per stream.

That row holds the sums of the counters of the merged units, so the totals of a stream do not
change; the counters of a single merged unit are no longer known.
"""

from collections.abc import Callable
from datetime import timedelta

import sql
from archiver.times import Micros, from_micros
from sql.archive import ChunkGateway, DeadLetterGateway, UnitGateway

# Since a unit was archived: its client may still ask for the counters of the unit.
MIN_UNIT_AGE = timedelta(hours=1)
# Since a pushed batch with an idempotency key was archived: the key is recognised until then.
PUSH_KEY_LIFETIME = timedelta(days=7)
# Units that one call looks at: live work waits meanwhile, 10 ms.
_PAGE_UNITS = 5_000


class LedgerCompaction:
    """Compacts the ledger on the connection of its one writer.

    `min_age`: units archived more recently are not merged.
    """

    def __init__(self, connection: sql.Connection, min_age: timedelta = MIN_UNIT_AGE) -> None:
        self._connection = connection
        self._chunks = ChunkGateway(connection)
        self._units = UnitGateway(connection)
        self._dead_letters = DeadLetterGateway(connection)
        self._min_age = min_age
        # By stream: the ledger id after which the next call continues.
        self._resume_after: dict[str, int] = {}

    def compact(
        self, stream: str, before: Micros, is_gone: Callable[[str], bool], limit: int
    ) -> bool:
        """Merge up to `limit` units whose rows are all before `before`.

        `is_gone` tells by a unit's name whether its source was removed and cannot be read again.
        Each call looks at a part of the ledger. Returns whether the caller should continue at once.
        """
        after = self._resume_after.get(stream, 0)
        until, count = self._units.find_page(stream, after=after, limit=_PAGE_UNITS)
        if until is None:
            self._resume_after[stream] = 0
            return False
        units = self._units.list_compactable(
            stream,
            after=after,
            until=until,
            before=from_micros(before),
            min_age=self._min_age,
            key_lifetime=max(PUSH_KEY_LIFETIME, self._min_age),
            limit=limit,
        )
        ids = [unit.id for unit in units if is_gone(unit.unit)]
        if ids:
            self._units.compact(stream, ids)
        if len(units) == limit:
            until = units[-1].id
        has_next_page = len(units) == limit or count == _PAGE_UNITS
        self._resume_after[stream] = until if has_next_page else 0
        # Without any merged unit, the next page can wait for the next period.
        return has_next_page and bool(ids)

    def drop_dead_letters(self, older_than: timedelta, limit: int) -> bool:
        """Delete up to `limit` dead letters older than `older_than`, except those marked for retry.

        Returns whether there may be more of them.
        """
        return self._dead_letters.delete_old(older_than, limit) == limit

    def delete_chunks_before(self, oldest: Micros) -> None:
        """Delete the catalog rows of chunks before `oldest`, whose files are deleted already.

        Chunk `oldest` starts at the beginning of time from now on.
        """
        with self._connection.transaction():
            self._chunks.delete_before(oldest)
            self._chunks.clear_start(oldest)
