"""The simulation of more executors than there are."""

import pytest

from benchmarks.cluster_scaling import (
    BATCH_ROWS,
    DRIVER,
    EXECUTORS,
    MEASURED_ROWS,
    WORK,
    find_ceiling,
    simulate,
)


@pytest.mark.parametrize("rows", BATCH_ROWS)
def test_more_executors_are_faster_and_the_driver_limits_them(rows: int) -> None:
    rates = [simulate(executors, rows, batches=20) for executors in EXECUTORS]
    assert rates == sorted(rates)
    assert rates[-1] < find_ceiling(rows) < rows / DRIVER.of(rows)


def test_costs_are_those_of_the_two_measured_batches() -> None:
    assert DRIVER.of(200_000) == pytest.approx(0.44)
    assert DRIVER.of(1_000_000) == pytest.approx(0.5)
    assert WORK.of(1_000_000) == pytest.approx(7.2)


@pytest.mark.parametrize("workers", MEASURED_ROWS)
def test_simulated_rates_are_near_the_measured_ones(workers: int) -> None:
    low, high = MEASURED_ROWS[workers]
    assert 0.9 * low < simulate(workers, 200_000, batches=20) < 1.1 * high
