"""The rate of requests, and slots for what is done at once."""

from moirae.server.limits import ConcurrencyLimiter, RateLimiter


def test_burst_is_followed_by_the_rate() -> None:
    now = 0.0
    limiter = RateLimiter(rate=2, burst=3, clock=lambda: now)
    assert [limiter.take("a") for _ in range(4)] == [True, True, True, False]
    assert limiter.is_exhausted("a")
    assert limiter.take("b")
    now = 0.5
    assert not limiter.is_exhausted("a")
    assert [limiter.take("a") for _ in range(2)] == [True, False]
    now = 100.0
    assert [limiter.take("a") for _ in range(4)] == [True, True, True, False]


def test_slots_are_limited_in_total_and_for_each_client() -> None:
    limiter = ConcurrencyLimiter(3, 2)
    assert [limiter.acquire(client) for client in "aaabc"] == [True, True, False, True, False]
    limiter.release("a")
    assert [limiter.acquire(client) for client in "cb"] == [True, False]
