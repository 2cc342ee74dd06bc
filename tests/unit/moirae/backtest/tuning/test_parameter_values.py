"""Values of parameters on the command line."""

import pytest

from moirae.backtest.tuning.parameter_values import combine_values

PARAMETERS = {"high": 90, "part": 0.5, "site": "athens", "is_strict": True}


@pytest.mark.parametrize(
    ("options", "values"),
    [
        (["high=80..83"], [{"high": 80}, {"high": 81}, {"high": 82}, {"high": 83}]),
        (["high=-2..2..2"], [{"high": -2}, {"high": 0}, {"high": 2}]),
        (["part=0.1..0.4..0.1"], [{"part": part} for part in (0.1, 0.2, 0.3, 0.4)]),
        (["high=1,5..6,5,1e3"], [{"high": 1}, {"high": 5}, {"high": 6}, {"high": 1000}]),
        (["high=1", "high=2"], [{"high": 1}, {"high": 2}]),
        (
            ["site=a,b", "is_strict=true"],
            [
                {"site": "a", "is_strict": True},
                {"site": "b", "is_strict": True},
            ],
        ),
        (["high=1,2", "part=0"], [{"high": 1, "part": 0}, {"high": 2, "part": 0}]),
    ],
)
def test_values_are_combined(options: list[str], values: list[dict[str, object]]) -> None:
    assert combine_values(options, PARAMETERS) == values


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("high", "'high' is not NAME=VALUES"),
        ("low=1", "no parameter 'low'; its parameters are high, part, site, is_strict"),
        ("high=x", "high: 'x' is neither a number"),
        ("high=1..nan", "is neither a number"),
        ("high=1..2..3..4", "is neither a number"),
        ("high=9..1", "high: '9..1' has no values"),
        ("high=1..9..0", "has no values"),
        ("high=1..1e12", "at most 500"),
        ("is_strict=yes", "is_strict: 'yes' is not true or false"),
    ],
)
def test_values_that_are_not_valid_are_refused(option: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        combine_values([option], PARAMETERS)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(ValueError, match="10,000 combinations"):
        combine_values(["high=1..100", "part=1..100"], PARAMETERS)
