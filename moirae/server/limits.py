"""Limits of requests: how many of one client are served, and how large their bodies are. No I/O.

Bodies of ingest and of uploaded files have limits of their own.
"""

import time
from collections import Counter
from collections.abc import Callable

from cachetools import LRUCache

MAX_BODY_BYTES = 2 << 20  # of a JSON body
MAX_CONCURRENT_BODIES = 16  # that are being received
MAX_CLIENT_BODIES = 8  # of them, of one token
BODY_TIMEOUT = 30.0  # seconds to receive a JSON body
# Bodies of requests without a token, which is a login.
MAX_PUBLIC_BODY_BYTES = 4 << 10
MAX_CONCURRENT_PUBLIC_BODIES = 64
MAX_CLIENT_PUBLIC_BODIES = 8  # of them, of one address
PUBLIC_BODY_TIMEOUT = 5.0  # seconds
HEADER_TIMEOUT = 10.0  # seconds in which a connection must have sent the headers of a request
# Seconds for which a connection may be idle after a request with a token or session.
IDENTIFIED_KEEP_ALIVE_TIMEOUT = 90
_MAX_CLIENTS = 10_000  # whose requests are counted; the least recent are forgotten


class RateLimiter:
    """A token bucket for each client: `rate` requests per second, `burst` at once."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(_MAX_CLIENTS)
        """By client: how many requests it may make, and when they were counted."""

    def is_exhausted(self, client: str) -> bool:
        """Whether the client has no request left."""
        return self._count_tokens(client) < 1

    def take(self, client: str) -> bool:
        """Take a request of a client; returns False if it has none left."""
        tokens = self._count_tokens(client)
        is_allowed = tokens >= 1
        self._buckets[client] = (tokens - 1 if is_allowed else tokens, self._clock())
        return is_allowed

    def _count_tokens(self, client: str) -> float:
        tokens, counted_at = self._buckets.get(client, (self._burst, self._clock()))
        return min(self._burst, tokens + self._rate * (self._clock() - counted_at))


class ConcurrencyLimiter:
    """Slots for what is done at once: `total` of all clients, `per_client` of one of them."""

    def __init__(self, total: int, per_client: int) -> None:
        self._total = total
        self._per_client = per_client
        self._active: Counter[str] = Counter()

    def acquire(self, client: str) -> bool:
        """Take a slot; returns False if none is free."""
        if self._active.total() >= self._total or self._active[client] >= self._per_client:
            return False
        self._active[client] += 1
        return True

    def release(self, client: str) -> None:
        """Free a slot that was taken."""
        self._active[client] -= 1
        if not self._active[client]:
            del self._active[client]
