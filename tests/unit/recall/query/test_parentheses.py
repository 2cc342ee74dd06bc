"""Set operations with sides in parentheses."""

import pytest

from recall.query.parentheses import open_parentheses
from recall.query.parsing import Unsupported, parse


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


@pytest.mark.parametrize(
    "text",
    [
        "((SELECT a FROM x) LIMIT 3) UNION ALL SELECT a FROM y",
        "SELECT a FROM x UNION ALL ((SELECT a FROM y) ORDER BY a LIMIT 3)",
        "SELECT a FROM x WHERE a IN ((SELECT a FROM y) LIMIT 2)",
        "SELECT a FROM ((SELECT a FROM x) LIMIT 3) z",
    ],
)
def test_limit_behind_inner_parentheses_is_refused(text: str) -> None:
    with pytest.raises(Unsupported, match="inside of the parentheses"):
        open_parentheses(parse(text))


def test_limit_of_the_whole_query_stays() -> None:
    text = "((SELECT a FROM x) UNION SELECT a FROM y) ORDER BY a LIMIT 3"
    assert open_parentheses(parse(text)).sql("spark") == (
        "(SELECT a FROM x UNION SELECT a FROM y) ORDER BY a LIMIT 3"
    )
