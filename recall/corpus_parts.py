"""The parts of corpora that this process holds in memory, up to a limit.

A process claims parts by lease in PostgreSQL. A part that it does not hold is read from its file
when it is compared with, and released again.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple, Protocol

import orjson

import sql
from archiver.periodic import Timer
from recall.ledger import LEASE_DURATION
from recall.part_plans import CorpusPart, plan_parts
from recall.similarity import Index, IndexStore
from sql.similarity import PartGateway, PartRow

# A corpus with which nobody has compared for this long is held by nobody.
_UNUSED_TIMEOUT = timedelta(minutes=10)
# Between two times at which the use of a corpus is stored.
_USE_INTERVAL = 60.0  # seconds
# The stored size of a part is changed when it is off by more than this share.
_SIZE_TOLERANCE = 0.1


class CorpusKey(NamedTuple):
    """The identity of a corpus: a version of a rule, and what is compared of its events.

    `numeric`: columns compared as numbers, each with its bandwidth (None: by Silverman's rule).
    """

    rule: str
    version: str
    contexts: tuple[str, ...]
    numeric: tuple[tuple[str, float | None], ...]

    def to_json(self) -> str:
        """As text; `from_json` is the inverse."""
        return orjson.dumps(list(self)).decode()

    @classmethod
    def from_json(cls, stored: str) -> "CorpusKey":
        rule, version, contexts, numeric = orjson.loads(stored)
        return cls(rule, version, tuple(contexts), tuple(map(tuple, numeric)))


class CorpusParts(Protocol):
    """Decides which chunks of an index are held in memory."""

    def hold(self, key: CorpusKey, index: Index, store: IndexStore, is_used: bool) -> bool:
        """Hold the parts of an index that this process may hold.

        `is_used`: whether one of its tasks compares with it. Returns whether it is wanted.
        """


class NoParts:
    """Nothing is held: each part is read when it is needed."""

    def hold(self, key: CorpusKey, index: Index, store: IndexStore, is_used: bool) -> bool:
        """Release all that is stored."""
        index.hold((), store.open_stored)
        return True


class PartHolder:
    """Claims parts for this process."""

    def __init__(
        self, connection: sql.Connection, *, lease: int, max_bytes: int, name: str
    ) -> None:
        """`lease`: see `Ledger.acquire_lease`. `name`: of the process, for operators."""
        self.lease = lease
        self._gateway = PartGateway(connection)
        self._max_bytes = max_bytes
        self._name = name
        self._held: dict[CorpusKey, Mapping[int, int]] = {}
        self._holders: dict[CorpusKey, Mapping[int, int]] = {}
        self._use_timers: dict[CorpusKey, Timer] = {}

    def hold(self, key: CorpusKey, index: Index, store: IndexStore, is_used: bool) -> bool:
        """Claim parts as `plan_parts` says, hold them, and release the others."""
        corpus, sizes = key.to_json(), index.chunk_bytes()
        rows = self._gateway.list_parts(corpus)
        if is_used and self._is_outdated(key, rows, sizes):
            self._gateway.put_parts(corpus, sizes)
        elif not rows and not is_used:
            self.forget(key)
            return False
        holders = {row.chunk: row.holder for row in rows}
        parts = [CorpusPart(chunk, size, holders.get(chunk)) for chunk, size in sizes.items()]
        plan = plan_parts(parts, self.lease, self.free_bytes(key))
        if plan.given_up:
            self._gateway.release_parts(corpus, plan.given_up, self.lease)
        held_chunks = set(plan.kept)
        if plan.claimed:
            held_chunks.update(
                self._gateway.claim_parts(
                    corpus,
                    plan.claimed,
                    lease=self.lease,
                    duration=LEASE_DURATION,
                    name=self._name,
                )
            )
        index.hold(held_chunks, store.open_stored)
        self._held[key] = {chunk: sizes[chunk] for chunk in held_chunks}
        holder_by_chunk = {}
        for row in rows:
            if row.holder is not None and row.holder != self.lease:
                holder_by_chunk[row.chunk] = row.holder
        self._holders[key] = holder_by_chunk
        return True

    def _is_outdated(self, key: CorpusKey, rows: list[PartRow], sizes: Mapping[int, int]) -> bool:
        """Whether the parts must be stored again."""
        timer = self._use_timers.setdefault(key, Timer(_USE_INTERVAL))
        stored = {row.chunk: row.bytes for row in rows}
        differs = any(
            abs(size - stored.get(chunk, 0)) > _SIZE_TOLERANCE * size
            for chunk, size in sizes.items()
        )
        if differs or timer.is_due():
            timer.restart()
            return True
        return False

    def free_bytes(self, key: CorpusKey | None = None) -> int:
        """Memory that is left for parts of a corpus, or of a new one."""
        used = sum(sum(sizes.values()) for other, sizes in self._held.items() if other != key)
        return self._max_bytes - used

    def holders(self, key: CorpusKey) -> Mapping[int, int]:
        """By chunk, the lease of the other process that holds its part."""
        return self._holders.get(key, {})

    def list_wanted(self) -> list[CorpusKey]:
        """The corpora with parts that nobody holds and this process has memory for."""
        corpora = self._gateway.list_wanted(self.free_bytes(), _UNUSED_TIMEOUT)
        return list(map(CorpusKey.from_json, corpora))

    def forget(self, key: CorpusKey) -> None:
        """Give up the parts of a corpus that is no longer in memory."""
        sizes = self._held.pop(key, {})
        if sizes:
            self._gateway.release_parts(key.to_json(), list(sizes), self.lease)
        self._holders.pop(key, None)
        self._use_timers.pop(key, None)

    def renew(self) -> None:
        """Extend the lease, and delete what is not used any more."""
        self._gateway.renew(self.lease, LEASE_DURATION)
        self._gateway.delete_unused(_UNUSED_TIMEOUT)

    def release_all(self) -> None:
        """Give up all parts: the process ends."""
        self._gateway.release_all(self.lease)
