"""Errors in one line."""

import pytest

from recall.worker.query_slots import summarise_error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("\n first line\nsecond line"), "first line"),
        (ValueError(""), "ValueError"),
        (KeyError("host"), "KeyError: 'host'"),
        (
            RuntimeError("trace\n[DIVIDE_BY_ZERO] Division by zero.\n at x"),
            "[DIVIDE_BY_ZERO] Division by zero.",
        ),
        (ValueError("x" * 2000), "x" * 1000),
    ],
)
def test_error_is_summarised_in_one_line(error: Exception, expected: str) -> None:
    assert summarise_error(error) == expected
