"""Equal subqueries of the queries of a statement become one view."""

from sqlglot import exp

from moirae.evaluation.shared_sources import SharedSources
from recall.query import parse

LOAD = "SELECT host, MAX(v) AS v FROM s GROUP BY host"


def _rewrite(*queries: str) -> tuple[list[str], dict[str, str]]:
    sources = SharedSources()
    parsed: list[exp.Query] = list(map(parse, queries))
    for query in parsed:
        sources.add(query)
    rewritten = [sources.rewrite(query).sql(dialect="spark") for query in parsed]
    assert [query.sql(dialect="spark") for query in parsed] == [
        parse(query).sql(dialect="spark") for query in queries
    ], "originals do not change"
    return rewritten, sources.views


def test_equal_subqueries_are_read_as_a_view() -> None:
    rewritten, views = _rewrite(
        f"SELECT a.v FROM ({LOAD}) AS a WHERE a.v > 1",
        f"SELECT b.host FROM s JOIN ({LOAD}) AS b ON s.host = b.host",
    )
    assert rewritten == [
        "SELECT a.v FROM shared_0 AS a WHERE a.v > 1",
        "SELECT b.host FROM s JOIN shared_0 AS b ON s.host = b.host",
    ]
    assert views == {"shared_0": LOAD}


def test_subquery_that_is_read_once_stays() -> None:
    queries = [f"SELECT a.v FROM ({LOAD}) AS a", "SELECT v FROM (SELECT v FROM s) AS b"]
    assert _rewrite(*queries) == (queries, {})


def test_view_is_created_after_the_views_that_it_reads() -> None:
    nested = f"SELECT host FROM ({LOAD}) AS a WHERE a.v > 3"
    rewritten, views = _rewrite(
        f"SELECT host FROM ({nested}) AS n",
        f"SELECT UPPER(host) FROM ({nested}) AS n",
        f"SELECT v FROM ({LOAD}) AS a",
    )
    assert views == {
        "shared_0": LOAD,
        "shared_1": "SELECT host FROM shared_0 AS a WHERE a.v > 3",
    }
    assert rewritten[0] == "SELECT host FROM shared_1 AS n"


def test_subquery_inside_of_shared_ones_only_has_no_view() -> None:
    nested = f"SELECT host FROM ({LOAD}) AS a WHERE a.v > 3"
    _, views = _rewrite(f"SELECT host FROM ({nested}) AS n", f"SELECT 1 FROM ({nested}) AS n")
    assert views == {"shared_0": nested}


def test_subquery_over_a_cte_from_outside_is_not_shared() -> None:
    text = f"WITH c AS ({LOAD}) SELECT v FROM (SELECT v FROM c) AS a"
    assert _rewrite(text, text)[1] == {}


def _source(sql: str) -> exp.Subquery:
    """The subquery in FROM of `SELECT * FROM (sql) AS x`."""
    source = parse(f"SELECT * FROM ({sql}) AS x").args["from_"].this
    assert isinstance(source, exp.Subquery)
    return source


def test_source_alone_is_shared_with_queries() -> None:
    sources = SharedSources()
    query = parse(f"SELECT a.v FROM ({LOAD}) AS a")
    sources.add(query)
    sources.add_source(_source(LOAD))
    assert sources.rewrite(query).sql(dialect="spark") == "SELECT a.v FROM shared_0 AS a"
    assert sources.rewrite_source(_source(LOAD)) == "shared_0"
    assert sources.views == {"shared_0": LOAD}


def test_subquery_inside_of_a_source_alone_is_shared_with_queries() -> None:
    sources = SharedSources()
    nested = _source(f"SELECT host FROM ({LOAD}) AS a WHERE a.v > 3")
    query = parse(f"SELECT a.v FROM ({LOAD}) AS a")
    sources.add(query)
    sources.add_source(nested)
    assert sources.rewrite_source(nested) == "(SELECT host FROM shared_0 AS a WHERE a.v > 3)"
    assert sources.rewrite(query).sql(dialect="spark") == "SELECT a.v FROM shared_0 AS a"
    assert sources.views == {"shared_0": LOAD}


def test_source_without_a_shared_part_stays() -> None:
    sources = SharedSources()
    sources.add_source(_source(LOAD))
    assert sources.rewrite_source(_source(LOAD)) is None
    assert sources.views == {}
