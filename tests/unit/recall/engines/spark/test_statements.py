"""Limits of the time of Spark statements; the rest is in `tests/contract`."""

from recall.engines.spark.statements import is_over_limit


def test_statement_is_limited_by_processor_time_first() -> None:
    assert not is_over_limit(20.0, cpu_seconds=3.0, wall_seconds=150.0)
    assert is_over_limit(20.0, cpu_seconds=21.0, wall_seconds=21.0)
    assert is_over_limit(20.0, cpu_seconds=0.0, wall_seconds=201.0)
