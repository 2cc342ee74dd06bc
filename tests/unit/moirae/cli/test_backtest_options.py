"""The range of `moirae rules backtest` and `rules tune`: options that are refused."""

import pytest
from typer.testing import CliRunner

from moirae.cli import app
from moirae.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--last", "1d", "--from", "2026-01-01"], "--last and --from exclude each other"),
        (["--from", "soon"], "--from: 'soon' is not a time, such as 2026-01-31T12:00Z"),
        (["--from", "2026-01-02", "--to", "2026-01-01"], "--to must be later than --from"),
        (["--last", "long"], "--last: 'long' is not a duration"),
    ],
)
def test_invalid_ranges_are_refused(options: list[str], message: str) -> None:
    error = CliRunner().invoke(app, ["rules", "backtest", *options]).exception
    assert isinstance(error, UsageError)
    assert str(error).startswith(message)
