"""Queries that can be split into pieces of history, and the reasons why others cannot."""

import re

import pytest
from sqlglot import exp

from recall.query.parsing import Unsupported
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables(
    {"cpu": "ts", "ping": "at"},
    frozenset({"hosts"}),
    {
        "load": "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu "
        "GROUP BY host, window(ts, '5 minutes')"
    },
)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT first(cpu) AS n FROM cpu", r"first: which row is first .* min_by\(x, ts\)"),
        ("SELECT percentile(cpu, cpu) AS p FROM cpu", "must be literals between 0 and 1"),
        (
            "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY cpu) AS p FROM cpu",
            r"use percentile\(x, 0.5\)",
        ),
        ("SELECT approx_percentile(cpu, 0.5, 0) AS p FROM cpu", "positive integer"),
        ("SELECT approx_count_distinct(cpu, 2) AS p FROM cpu", "between 0 and 1"),
        ("SELECT max_by(cpu, ts, 3) AS p FROM cpu", "two arguments"),
        ("SELECT listagg(host) AS p FROM cpu", "array_join"),
        ("SELECT cpu FROM cpu", "requires a LIMIT"),
        ("SELECT * FROM cpu LIMIT 3", "is not supported in a recall"),
        ("SELECT host FROM (SELECT host FROM cpu) x LIMIT 3", "requires an ORDER BY"),
        ("SELECT site FROM nothing UNION SELECT host FROM nothing", "must read a stream"),
        (
            "SELECT a.host, b.host FROM cpu a JOIN ping b ON a.host = b.host",
            "two columns are named host",
        ),
        ("SELECT host, count(*) AS n FROM cpu", "neither grouped"),
    ],
)
def test_unsupported_queries_are_rejected_with_a_reason(sql: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        split_query(sql, TABLES)


@pytest.mark.parametrize(
    ("sql", "reason", "merge"),
    [
        (
            "SELECT count(*) AS n FROM cpu c JOIN ping p ON c.host = p.host",
            "a join of streams",
            "SELECT `n` FROM _merged",
        ),
        (
            "SELECT count(*) AS n FROM hosts h LEFT JOIN cpu c USING (host)",
            "with the stream first \\(FROM c\\)",
            "SELECT `n` FROM _merged",
        ),
        (
            "SELECT count(*) AS n FROM (SELECT DISTINCT host FROM cpu) x",
            "inside a subquery",
            "SELECT `n` FROM _merged",
        ),
        (
            "SELECT host, count(*) FROM (SELECT host FROM cpu EXCEPT SELECT host FROM ping) x "
            "GROUP BY host ORDER BY host",
            "EXCEPT",
            "SELECT `host`, `COUNT(*)` FROM _merged ORDER BY _row",
        ),
        (
            "SELECT host FROM cpu UNION SELECT host FROM ping ORDER BY host",
            "UNION",
            "SELECT * EXCEPT (_row) FROM _merged ORDER BY _row",
        ),
        (
            "SELECT host, rank() OVER (ORDER BY ts) AS r FROM cpu LIMIT 3",
            "OVER",
            "SELECT `host`, `r` FROM _merged ORDER BY _row",
        ),
        (
            "SELECT host FROM (SELECT host, ts FROM cpu ORDER BY cpu LIMIT 5) x ORDER BY ts LIMIT 2",
            "inside a subquery",
            "SELECT `host` FROM _merged ORDER BY _row",
        ),
    ],
)
def test_query_that_needs_all_rows_stays_whole(sql: str, reason: str, merge: str) -> None:
    split = split_query(sql, TABLES)
    assert split.whole is not None and re.search(reason, split.whole)
    assert split.merge.sql("spark") == merge
    assert split.selects_rows and not split.newest_first


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT mode(host) AS n FROM cpu", "mode"),
        ("SELECT site FROM hosts LIMIT 1", "no pieces of history"),
        ("SELECT regr_slope(cpu, cpu) AS n FROM cpu", "regr_slope"),
        ("SELECT stddev(DISTINCT cpu) AS n FROM cpu", r"stddev\(DISTINCT"),
        ("SELECT host FROM cpu ORDER BY ts LIMIT 3 OFFSET 2", "OFFSET"),
        ("SELECT host FROM cpu UNION SELECT host FROM ping ORDER BY 1 LIMIT 3 OFFSET 1", "UNION"),
        ("SELECT DISTINCT count(*) AS n FROM cpu GROUP BY host ORDER BY n", "DISTINCT"),
        ("SELECT count(*) AS n FROM cpu GROUP BY ROLLUP (host)", "ROLLUP"),
        ("SELECT count(*) AS n FROM cpu c FULL JOIN hosts h ON c.host = h.host", "FULL JOIN"),
        ("SELECT count(*) AS n FROM cpu c RIGHT JOIN hosts h ON c.host = h.host", "RIGHT JOIN"),
        ("SELECT h.host FROM hosts h WHERE 3 < (SELECT count(*) FROM cpu)", "outside of FROM"),
        ("SELECT h.host, x.n FROM hosts h, LATERAL (SELECT count(*) AS n FROM cpu) x", "LATERAL"),
    ],
)
def test_kinds_of_queries_that_stay_whole(sql: str, reason: str) -> None:
    split = split_query(sql, TABLES)
    assert split.whole is not None and re.search(reason, split.whole)


def test_right_join_of_the_stream_is_split() -> None:
    sql = "SELECT count(*) AS n FROM hosts h RIGHT JOIN cpu c ON c.host = h.host"
    assert split_query(sql, TABLES).whole is None


def test_lateral_view_is_split() -> None:
    sql = "SELECT t.x AS x, count(*) AS n FROM cpu c LATERAL VIEW explode(c.xs) t AS x GROUP BY t.x"
    split = split_query(sql, TABLES)
    assert split.whole is None and "LATERAL VIEW" in split.partial.sql("spark")


def test_lists_of_whole_queries_are_sorted() -> None:
    sql = "SELECT DISTINCT collect_list(host) AS l FROM cpu GROUP BY cpu ORDER BY l"
    assert "SORT_ARRAY(COLLECT_LIST(host))" in split_query(sql, TABLES).partial.sql("spark")


def test_rejection_points_to_the_place() -> None:
    with pytest.raises(Unsupported) as rejection:
        split_query("SELECT count(*) AS n,\n  first(cpu) AS f FROM cpu", TABLES)
    assert (rejection.value.line, rejection.value.column) == (2, 3)


def test_repeated_aggregate_is_computed_once() -> None:
    split = split_query(
        "SELECT avg(cpu) AS a, avg(cpu) + 1 AS b, host AS h FROM cpu GROUP BY host", TABLES
    )
    assert len(split.aggregates) == 1
    assert split.groups == ("_g0",)


def test_variance_is_split_into_count_mean_and_squares() -> None:
    split = split_query("SELECT stddev(cpu) AS s FROM cpu", TABLES)
    (aggregate,) = split.aggregates
    assert aggregate.kind == "stddev_samp"
    assert aggregate.part_columns == ("_a0_0", "_a0_1", "_a0_2")
    assert split.is_global_aggregate


@pytest.mark.parametrize(
    ("value_type", "kind"), [(None, "avg"), ("double", "avg"), ("decimal(12,3)", "exact_avg")]
)
def test_average_is_exact_for_known_decimals(value_type: str | None, kind: str) -> None:
    types = {"_v0": value_type} if value_type else {}
    (aggregate,) = split_query("SELECT avg(cpu) AS a FROM cpu", TABLES, types).aggregates
    assert aggregate.kind == kind


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("host", "host"),
        ("host", "host DESC"),
        ("host", "n DESC, host"),
        ("upper(host)", "upper(host)"),
        ("date_trunc('HOUR', ts)", "date_trunc('HOUR', ts)"),
        ("host", "host NULLS LAST"),
        ("host", "1"),
        ("host", "count(*), host"),
    ],
)
def test_merged_rows_can_be_ordered_by_group(key: str, order: str) -> None:
    sql = f"SELECT {key}, count(*) AS n FROM cpu GROUP BY {key} ORDER BY {order} LIMIT 10"
    *_, last_entry = split_query(sql, TABLES).merge.args["order"].expressions
    assert isinstance(last_entry, exp.Ordered)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT avg(cpu) AS a, count(*) AS n FROM cpu", {"a": "_v0", "n": "_v1"}),
        ("SELECT max(exists(array(cpu), x -> x > 1)) AS a FROM cpu", {"a": "_v0"}),
        ("SELECT avg(cpu) + 1 AS a FROM cpu", None),
        ("SELECT host, count(*) AS n FROM cpu GROUP BY host HAVING count(*) > 1", None),
    ],
)
def test_direct_columns_only_rename(sql: str, columns: dict[str, str] | None) -> None:
    assert split_query(sql, TABLES).direct_columns == columns


def test_plain_rows_keep_the_newest_of_each_piece() -> None:
    split = split_query("SELECT host, cpu AS c FROM cpu LIMIT 3", TABLES)
    assert split.selects_rows
    assert split.limit == 3
    order = "ORDER BY `cpu`.`ts` DESC"
    assert order in split.partial.sql("spark")
    assert split.merge.sql("spark") == "SELECT `host`, `c` FROM _merged ORDER BY _o0 DESC LIMIT 3"


def test_synonyms_of_aggregates_are_recognised() -> None:
    split = split_query(
        "SELECT mean(cpu) AS a, std(cpu) AS s, every(cpu > 1) AS e, any(cpu > 1) AS o FROM cpu",
        TABLES,
    )
    kinds = {aggregate.kind for aggregate in split.aggregates}
    assert kinds == {"avg", "stddev_samp", "min", "max"}
