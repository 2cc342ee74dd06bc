"""Limits of requests: how many of one client are served, and how large their bodies are. No I/O.

Bodies of ingest and of uploaded files have limits of their own.
"""

import time
from collections.abc import Callable

from cachetools import LRUCache

MAX_BODY_BYTES = 2 << 20  # of a JSON body
MAX_CONCURRENT_BODIES = 16
BODY_TIMEOUT = 30.0  # seconds to receive a JSON body
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
