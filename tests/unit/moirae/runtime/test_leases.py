"""When the lease of a process on another machine has expired."""

from moirae.runtime.leases import LeaseWatch

EPOCH = 3


def _look(watch: LeaseWatch, renewals: list[int | None]) -> list[bool]:
    return [watch.has_expired(EPOCH, number) for number in renewals]


def test_lease_expires_after_twelve_looks_without_a_renewal() -> None:
    assert _look(LeaseWatch(), [7] * 14) == [False] * 12 + [True] * 2


def test_renewed_lease_does_not_expire() -> None:
    renewals: list[int | None] = [number // 11 for number in range(200)]
    assert not any(_look(LeaseWatch(), renewals))


def test_renewal_before_the_last_look_counts() -> None:
    watch = LeaseWatch()
    assert not any(_look(watch, [*[7] * 12, 8]))
    assert _look(watch, [8] * 12) == [False] * 11 + [True]


def test_next_process_of_the_role_has_a_lease_of_its_own() -> None:
    watch = LeaseWatch()
    _look(watch, [1] * 12)
    assert not watch.has_expired(EPOCH + 1, 1)


def test_process_without_a_lease_is_held_by_its_lock_alone() -> None:
    assert not any(_look(LeaseWatch(), [None] * 100))


def test_looks_before_an_outage_do_not_count() -> None:
    watch = LeaseWatch()
    _look(watch, [7] * 12)
    watch.reset()
    assert not any(_look(watch, [7] * 12))
