"""The notation of series."""

import pytest

from moirae.rule_tests.series import MISSING, expand_series


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0 1.5 -2", [0, 1.5, -2]),
        ("-2+4x3", [-2, 2, 6, 10]),
        ("1-2x4", [1, -1, -3, -5, -7]),
        ("1x4", [1, 1, 1, 1, 1]),
        ("1 _x3 5-4x2", [1, MISSING, MISSING, MISSING, 5, 1, -3]),
        ("_ 0.5+0.25x1", [MISSING, 0.5, 0.75]),
        ("1e3+1e2x1", [1000.0, 1100.0]),
        ('up "not ready"x1 null true', ["up", "not ready", "not ready", None, True]),
        ("", []),
    ],
)
def test_series_are_expanded(text: str, values: list[object]) -> None:
    assert expand_series(text) == values


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 stale", "rows do not become stale; leave values out with _"),
        ("1x1000000", "more than 100,000 values"),
        ("1x99999999999999", "more than 100,000 values"),
        ('"open', "'\"open' is not a value"),
    ],
)
def test_invalid_series_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expand_series(text)
