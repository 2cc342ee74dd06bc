"""Collects the messages of a stream and writes them to its landing folder, at short intervals."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence

import structlog

import sql
from archiver.formats import Format, landed_suffix
from moirae.config import Stream
from moirae.errors import MoiraeError, RequestRejected
from moirae.runtime.storage import Landing, redact_batch

_LOG = structlog.get_logger()

FLUSH_INTERVAL = 0.5  # seconds that a message waits at most, unless the archive is behind
MAX_PENDING_BYTES = 4 << 20  # in memory: then connections are not read, and datagrams dropped
MAX_RATE = 50_000  # messages a second of a stream
_FORMAT = Format("syslog")


class MessageBatches:
    """The messages of a stream that are not written yet. Used by one event loop.

    `check_capacity`: raises `RequestRejected` while too much waits to be archived. `count_skipped`:
    stores how many messages were left out, by reason.
    """

    def __init__(
        self,
        landing: Landing,
        declared: Stream,
        check_capacity: Callable[[Landing], None],
        count_skipped: Callable[[Counter[tuple[str, str]]], None],
    ) -> None:
        self._landing = landing
        self._declared = declared
        self._check_capacity = check_capacity
        self._count_skipped = count_skipped
        self._messages: list[bytes] = []
        self._size = 0
        self._second = (0, 0)  # of the clock, and how many messages it has brought
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._said = ""

    async def add(self, messages: Sequence[bytes]) -> None:
        """Take messages of a connection, as soon as there is room for them."""
        await self._has_room.wait()
        while not self._is_within_rate(len(messages)):
            await asyncio.sleep(0.1)
        self._take(messages)

    def offer(self, message: bytes) -> None:
        """Take a datagram, or drop it: its sender cannot be made to wait."""
        if self._has_room.is_set() and self._is_within_rate(1):
            self._take((message,))
        else:
            self.skip("dropped datagrams", 1)

    def skip(self, reason: str, count: int) -> None:
        """Count what is not stored."""
        if count:
            self._skipped[self._landing.stream, reason] += count

    async def keep_writing(self) -> None:
        """Write what has come, until it is cancelled."""
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write what has come; what cannot be written now is kept."""
        skipped, self._skipped = self._skipped, Counter()
        messages, size = self._messages, self._size
        self._messages, self._size = [], 0
        try:
            await asyncio.to_thread(self._write, messages, skipped)
        except (MoiraeError, OSError, sql.DatabaseError) as error:
            self._messages, self._size = messages + self._messages, self._size + size
            self._skipped += skipped
            self._say(str(error))
        else:
            self._say("")
        if self._size < MAX_PENDING_BYTES:
            self._has_room.set()
        else:
            self._has_room.clear()

    def _take(self, messages: Sequence[bytes]) -> None:
        self._messages += messages
        self._size += sum(map(len, messages))
        if self._size >= MAX_PENDING_BYTES:
            self._has_room.clear()

    def _is_within_rate(self, count: int) -> bool:
        second, taken = self._second
        now = int(time.monotonic())
        taken = count if now != second else taken + count
        if now == second and taken > MAX_RATE:
            return False
        self._second = now, taken
        return True

    def _write(self, messages: Sequence[bytes], skipped: Counter[tuple[str, str]]) -> None:
        """In a thread. Raises what prevents it; then nothing is written."""
        if messages:
            self._check_capacity(self._landing)
            content = b"\n".join(messages) + b"\n"
            stream = self._landing.stream
            content = redact_batch(stream, self._declared, _FORMAT, content)
            name = f"push-syslog-{secrets.token_hex(16)}"
            self._landing.write_batch(name, landed_suffix("syslog"), content)
        if skipped:
            try:
                self._count_skipped(skipped)
            except (RequestRejected, sql.DatabaseError):
                self._skipped += skipped  # the next time

    def _say(self, reason: str) -> None:
        """Log what prevents writing, once."""
        if reason and reason != self._said:
            _LOG.warning(
                "syslog messages wait",
                action="syslog_waiting",
                stream=self._landing.stream,
                reason=reason,
            )
        self._said = reason
