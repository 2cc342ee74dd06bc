"""EXISTS and IN as joins that keep or drop rows."""

import pytest

from recall.query.parsing import parse
from recall.query.semi_joins import join_subqueries


@pytest.mark.parametrize(
    ("condition", "joined"),
    [
        (
            "EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y > 3)",
            "LEFT SEMI JOIN (SELECT b.x AS _k0 FROM b WHERE b.y > 3) AS _x0 ON _x0._k0 = a.x",
        ),
        (
            "NOT EXISTS (SELECT * FROM b WHERE b.x = a.x AND b.t < a.t AND b.h = event.h)",
            "LEFT ANTI JOIN (SELECT b.x AS _k0, b.t AS _k1 FROM b WHERE b.h = event.h) AS _x0 "
            "ON _x0._k0 = a.x AND _x0._k1 < a.t",
        ),
        ("EXISTS (SELECT y FROM b)", "LEFT SEMI JOIN (SELECT 1 AS _k0 FROM b) AS _x0 ON TRUE"),
        (
            "EXISTS (SELECT x FROM b GROUP BY x HAVING COUNT(*) > 2)",
            "LEFT SEMI JOIN (SELECT x FROM b GROUP BY x HAVING COUNT(*) > 2) AS _x0 ON TRUE",
        ),
        (
            "x IN (SELECT x FROM b WHERE y > 3)",
            "LEFT SEMI JOIN (SELECT x AS _v FROM b WHERE y > 3) AS _x0 ON x = _x0._v",
        ),
        (
            "a.x IN (SELECT b.x FROM b WHERE b.t < a.t)",
            "LEFT SEMI JOIN (SELECT b.x AS _v, b.t AS _k0 FROM b) AS _x0 "
            "ON _x0._k0 < a.t AND a.x = _x0._v",
        ),
        (
            "a.x IN (SELECT MAX(x) FROM b GROUP BY y)",
            "LEFT SEMI JOIN (SELECT MAX(x) AS _v FROM b GROUP BY y) AS _x0 ON a.x = _x0._v",
        ),
        (
            "a.x IN (SELECT x FROM b UNION SELECT x FROM c)",
            "LEFT SEMI JOIN (SELECT x AS _v FROM (SELECT x FROM b UNION SELECT x FROM c) AS _w) "
            "AS _x0 ON a.x = _x0._v",
        ),
        (
            "EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND EXISTS (SELECT 1 FROM c WHERE c.y = b.y))",
            "LEFT SEMI JOIN (SELECT b.x AS _k0 FROM b LEFT SEMI JOIN (SELECT c.y AS _k0 FROM c) "
            "AS _x0 ON _x0._k0 = b.y) AS _x1 ON _x1._k0 = a.x",
        ),
    ],
)
def test_subquery_in_where_becomes_a_join(condition: str, joined: str) -> None:
    query = join_subqueries(parse(f"SELECT a.x FROM a WHERE {condition}"))
    assert query.sql("spark") == f"SELECT a.x FROM a {joined}"


def test_other_conditions_stay() -> None:
    text = "SELECT x FROM a WHERE y > 3 AND EXISTS (SELECT 1 FROM b) AND z < 2"
    rewritten = join_subqueries(parse(text)).sql("spark")
    assert rewritten.endswith("AS _x0 ON TRUE WHERE y > 3 AND z < 2")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x FROM a WHERE y > 3 OR EXISTS (SELECT 1 FROM b)",
        "SELECT x FROM a WHERE y > (SELECT max(y) FROM b)",
        "SELECT x, EXISTS (SELECT 1 FROM b) AS e FROM a",
        "SELECT x FROM a WHERE exists(y, z -> z > 3) AND x IN (1, 2)",
    ],
)
def test_other_subqueries_are_left_as_they_are(text: str) -> None:
    assert join_subqueries(parse(text)) == parse(text)


@pytest.mark.parametrize(
    "condition",
    [
        "x IN (SELECT x, y FROM b)",
        "x IN (SELECT * FROM b)",
        "(x, y) NOT IN (SELECT x, y FROM b)",
        "EXISTS (SELECT 1 FROM b WHERE b.x = a.x LIMIT 1)",
        "x IN (SELECT max(b.y) FROM b WHERE b.x = a.x)",
        "EXISTS (SELECT 1 FROM b JOIN c ON c.x = a.x)",
        "x IN (SELECT a.y FROM b)",
        "EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y > (SELECT avg(y) FROM b))",
    ],
)
def test_condition_without_a_join_is_left_as_it_is(condition: str) -> None:
    text = f"SELECT a.x FROM a WHERE {condition}"
    assert join_subqueries(parse(text)) == parse(text)


def test_not_in_drops_rows_for_which_it_is_null() -> None:
    """That a value is NULL is looked up in one row for each group, not in all rows."""
    text = "SELECT a.x FROM a WHERE a.x NOT IN (SELECT b.x FROM b WHERE b.y = a.y)"
    *_, unknown, same = join_subqueries(parse(text)).args["joins"]
    assert unknown.sql("spark").endswith(
        "GROUP BY _g, _k0) AS _x1 ON _x1._k0 = a.y AND ((a.x) IS NULL OR _x1._u)"
    )
    assert same.sql("spark") == (
        "LEFT ANTI JOIN (SELECT b.x AS _v, b.y AS _k0 FROM b) AS _x0 "
        "ON _x0._k0 = a.y AND a.x = _x0._v"
    )
