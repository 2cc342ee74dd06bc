"""Processes take the time of day from the database, also with a clock of their own that is wrong."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from archiver.clock import SHARED_CLOCK, unix_now
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.runtime.database import connect_database
from moirae.runtime.leases import LeaseRenewal
from moirae.runtime.storage.landing_objects import LandingBucket
from sql.processes import ProcessGateway
from tests.workspaces import one_stream, workspace

SHIFT = timedelta(hours=3).total_seconds()
_TOLERANCE = 30.0  # seconds; for a loaded machine


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(SHARED_CLOCK, "_local", lambda: time.time() + SHIFT)
    monkeypatch.setattr(SHARED_CLOCK, "_offset", None)
    with workspace(one_stream(100, "30d"), "") as root:
        yield load_settings_from_environment(root / "moirae.yaml")


def _error() -> float:
    return abs(unix_now() - time.time())


def test_connecting_reads_the_clock(settings: Settings) -> None:
    assert _error() > SHIFT - _TOLERANCE
    connect_database(settings, "tests").close()
    assert _error() < _TOLERANCE


def test_each_renewal_of_a_lease_reads_the_clock(settings: Settings) -> None:
    with connect_database(settings, "tests") as connection:
        epoch = ProcessGateway(connection).start("live", 1, "one")
        SHARED_CLOCK._offset = None
        renewal = LeaseRenewal(lambda: connection, "live", epoch)
        renewal.stop.set()
        renewal.run()
    assert _error() < _TOLERANCE


def test_batches_in_object_storage_are_in_the_order_of_the_clock_of_the_database(
    settings: Settings,
) -> None:
    connect_database(settings, "tests").close()
    number = LandingBucket("s3://none/landing").next_number()
    assert abs(number / 1e6 - time.time()) < _TOLERANCE
