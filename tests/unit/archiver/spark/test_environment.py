"""Executors with other software than the driver's are refused."""

import json

import pytest

from archiver.spark.environment import (
    MISMATCH,
    compare_environments,
    describe_environment,
    find_mismatch,
)
from archiver.task_environment import DRIVER_ENVIRONMENT


def test_process_with_the_same_software_runs_tasks() -> None:
    assert find_mismatch({DRIVER_ENVIRONMENT: json.dumps(dict(describe_environment()))}) is None
    assert find_mismatch({}) is None


@pytest.mark.parametrize("name", ["python", "pyarrow", "moirae"])
def test_other_software_is_named(name: str) -> None:
    driver = {**describe_environment(), name: "0.0"}
    reason = find_mismatch({DRIVER_ENVIRONMENT: json.dumps(driver)})
    assert reason is not None
    assert reason.startswith(MISMATCH)
    assert f"{name} {describe_environment()[name]} instead of 0.0" in reason
    assert reason.count("instead of") == 1


def test_missing_software_differs() -> None:
    assert compare_environments({"duckdb": "1.4"}, {}) == ["duckdb missing instead of 1.4"]
