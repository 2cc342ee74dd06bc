"""Time limits and clean-up of Spark statements; the rest is in `tests/contract`."""

import time
from unittest.mock import Mock

import pytest

from recall.engines.spark.statements import SparkStatements, is_over_limit
from recall.statements.statement import Statement


def test_statement_is_limited_by_processor_time_first() -> None:
    assert not is_over_limit(20.0, cpu_seconds=3.0, wall_seconds=150.0)
    assert is_over_limit(20.0, cpu_seconds=21.0, wall_seconds=21.0)
    assert is_over_limit(20.0, cpu_seconds=0.0, wall_seconds=201.0)


def test_error_of_clean_up_does_not_replace_that_of_the_statement() -> None:
    session, frame = Mock(), Mock()
    session.sql.side_effect = [frame, ValueError("statement failed")]
    session.catalog.dropTempView.side_effect = ConnectionError("the JVM has exited")
    statement = Statement("SELECT n FROM v", views={"v": "SELECT 1 AS n"})
    with pytest.raises(ValueError, match="statement failed"):
        SparkStatements(lambda: session).run(statement)
    frame.persist.return_value.unpersist.assert_called_once()


def test_interrupt_does_not_start_spark() -> None:
    start_session = Mock(side_effect=ValueError("no memory for the JVM"))
    statements = SparkStatements(start_session)
    statements.interrupt()
    start_session.assert_not_called()
    with pytest.raises(ValueError, match="no memory"):
        statements.run(Statement("SELECT 1"))
    statements.interrupt()
    start_session.assert_called_once()


def test_start_of_the_session_is_measured_while_it_starts_and_afterwards() -> None:
    seen: list[float] = []

    def start() -> Mock:
        time.sleep(0.02)
        seen.append(statements.start_seconds)
        return Mock()

    statements = SparkStatements(start)
    assert statements.start_seconds == 0.0
    statements.attach_thread()
    assert 0.02 <= seen[0] <= statements.start_seconds
    started = statements.start_seconds
    time.sleep(0.02)
    assert statements.start_seconds == started
