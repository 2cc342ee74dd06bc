"""The reason of a failed statement in one line."""

from recall.engines.error_summary import summarize_error


def test_first_line_of_a_message() -> None:
    assert summarize_error(ValueError("\ndivision by zero\n\tat Task")) == "division by zero"


def test_error_without_message_has_its_class() -> None:
    assert summarize_error(TimeoutError()) == "TimeoutError"


def test_pattern_that_needs_too_many_steps_is_named() -> None:
    text = (
        "An error occurred while calling o12.collectToPython.\n"
        ": org.apache.spark.SparkException: Job aborted\n"
        "Caused by: org.moirae.patterns.PatternLimitExceeded: the regular expression (a+)+b needs "
        "more than 5,000 steps for a value of 30 characters\n\tat org.moirae"
    )
    assert summarize_error(RuntimeError(text)) == (
        "the regular expression (a+)+b needs more than 5,000 steps for a value of 30 characters"
    )
