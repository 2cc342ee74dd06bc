"""Queries with a further SELECT around or inside of them."""

import pytest
from sqlglot import exp

from recall.query.parsing import Unsupported, parse
from recall.query.wrapping import (
    expand_group_by_all,
    expand_qualify,
    isolate_where,
    separate_groups,
    wrap_ordered,
)


def select(text: str) -> exp.Select:
    query = parse(text)
    assert isinstance(query, exp.Select)
    return query


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        (
            "SELECT x FROM a UNION SELECT y FROM b ORDER BY 1 LIMIT 2 OFFSET 1",
            "SELECT * FROM (SELECT x FROM a UNION SELECT y FROM b) AS _w "
            "ORDER BY `x` LIMIT 2 OFFSET 1",
        ),
        (
            "SELECT DISTINCT x + 1 AS z FROM a ORDER BY x + 1 DESC",
            "SELECT * FROM (SELECT DISTINCT x + 1 AS z FROM a) AS _w ORDER BY `z` DESC",
        ),
        (
            "WITH t AS (SELECT 1 AS x) SELECT DISTINCT x FROM t LIMIT 3",
            "WITH t AS (SELECT 1 AS x) SELECT * FROM (SELECT DISTINCT x FROM t) AS _w LIMIT 3",
        ),
    ],
)
def test_order_and_limit_stand_outside(text: str, wrapped: str) -> None:
    assert wrap_ordered(parse(text)).sql("spark") == wrapped


def test_order_by_other_things_than_outputs_is_refused() -> None:
    with pytest.raises(Unsupported, match="must name outputs"):
        wrap_ordered(parse("SELECT DISTINCT x FROM a ORDER BY y"))


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        (
            "SELECT x, rank() OVER (ORDER BY y) AS r FROM a QUALIFY r = 1 ORDER BY x",
            "SELECT * EXCEPT (_q) FROM (SELECT x, RANK() OVER (ORDER BY y) AS r, "
            "(RANK() OVER (ORDER BY y)) = 1 AS _q FROM a) AS _w WHERE _q ORDER BY `x`",
        ),
        (
            "SELECT z FROM (SELECT z FROM a QUALIFY count(*) OVER () > 1) b",
            "SELECT z FROM (SELECT * EXCEPT (_q) FROM (SELECT z, COUNT(*) OVER () > 1 AS _q "
            "FROM a) AS _w WHERE _q) AS b",
        ),
    ],
)
def test_qualify_is_a_condition_on_the_rows(text: str, expanded: str) -> None:
    assert expand_qualify(parse(text)).sql("spark") == expanded


def test_condition_with_a_subquery_is_evaluated_before_the_aggregates() -> None:
    query = select("SELECT count(*) AS n, sum(a.v) AS s FROM a WHERE a.v > (SELECT max(v) FROM b)")
    isolate_where(query)
    assert query.sql("spark") == (
        "SELECT COUNT(*) AS n, SUM(_i._c0) AS s FROM "
        "(SELECT a.v AS _c0 FROM a WHERE a.v > (SELECT MAX(v) FROM b)) AS _i"
    )


def test_condition_without_a_subquery_stays() -> None:
    query = select("SELECT count(*) AS n FROM a WHERE a.v > 3")
    isolate_where(query)
    assert query == select("SELECT count(*) AS n FROM a WHERE a.v > 3")


def test_subqueries_among_outputs_are_evaluated_after_the_groups() -> None:
    query = select(
        "SELECT a.x AS x, count(*) / (SELECT count(*) FROM b WHERE b.x = a.x) AS s FROM a "
        "GROUP BY a.x HAVING s > 1 ORDER BY x"
    )
    separated = separate_groups(query)
    assert separated is not None
    assert separated.sql("spark") == (
        "SELECT _g._g1 AS x, _g._g0 / (SELECT COUNT(*) FROM b WHERE b.x = _g._g1) AS s FROM "
        "(SELECT COUNT(*) AS _g0, a.x AS _g1 FROM a GROUP BY a.x) AS _g "
        "WHERE (_g._g0 / (SELECT COUNT(*) FROM b WHERE b.x = _g._g1)) > 1 ORDER BY (_g._g1)"
    )
    assert separate_groups(select("SELECT count(*) AS n FROM a")) is None


def test_group_by_all_is_written_out() -> None:
    query = select("SELECT x, upper(y) AS y, count(*) AS n, 3 AS c FROM a GROUP BY ALL")
    expand_group_by_all(query)
    assert query.args["group"].sql("spark").strip() == "GROUP BY x, UPPER(y)"
