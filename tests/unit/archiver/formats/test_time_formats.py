"""Formats of times."""

import pytest

from archiver.formats import compile_time_format, expand_time_format


def test_named_formats_stand_for_others() -> None:
    assert expand_time_format("iso") == ("iso",)
    assert expand_time_format("apache")[0] == "%d/%b/%Y:%H:%M:%S %z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%Q-%m-%d", "unknown directive '%Q'"),
        ("%Y-%m", "has no month and day"),
        ("%d %d %m", "has %d twice"),
        ("rfc", "has no directive such as %Y"),
    ],
)
def test_invalid_formats_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand_time_format(text)


def test_a_format_may_leave_out_the_year() -> None:
    assert not compile_time_format("%b %d %T").has_year
    assert compile_time_format("%F %T").has_year
