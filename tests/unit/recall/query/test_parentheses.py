"""Set operations with sides in parentheses."""

import pytest

from recall.query.parentheses import open_parentheses
from recall.query.parsing import parse


@pytest.mark.parametrize(
    ("written", "opened"),
    [
        ("(SELECT a FROM x) UNION (SELECT a FROM y)", "SELECT a FROM x UNION SELECT a FROM y"),
        (
            "SELECT a FROM ((SELECT a FROM x) EXCEPT (SELECT a FROM y LIMIT 3)) z",
            "SELECT a FROM (SELECT a FROM x EXCEPT SELECT * FROM (SELECT a FROM y LIMIT 3) AS _p0) "
            "AS z",
        ),
        (
            "SELECT a FROM x EXCEPT (SELECT a FROM y UNION SELECT a FROM z)",
            "SELECT a FROM x EXCEPT SELECT * FROM (SELECT a FROM y UNION SELECT a FROM z) AS _p0",
        ),
        ("SELECT a FROM x UNION SELECT a FROM y", "SELECT a FROM x UNION SELECT a FROM y"),
    ],
)
def test_sides_have_no_parentheses(written: str, opened: str) -> None:
    assert open_parentheses(parse(written)).sql("spark") == opened
