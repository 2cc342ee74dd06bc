"""Plain queries: which queries are, and how their constants become data."""

import pytest

from recall.errors import SparkRequired
from recall.query.parsing import parse
from recall.query.plain import (
    DuckDBDialect,
    PlainQuery,
    SparkDialect,
    TypedExpression,
    create_recall_writer,
    to_duckdb_sql,
    to_plain,
)

TABLES = {
    "cpu": {
        "host": "string",
        "ts": "timestamp",
        "cpu": "double",
        "n": "bigint",
        "d": "decimal(9,2)",
    }
}


RELATIONS = {"hosts": {"host": "string", "site": "string", "day": "date"}}


def write(sql: str, **output_types: str) -> PlainQuery:
    return to_plain(parse(sql), TABLES, output_types, DuckDBDialect(), RELATIONS)


def test_queries_that_differ_in_constants_are_equal() -> None:
    sql = "SELECT host, ts FROM cpu WHERE host = 'a' AND n > 5"
    first = write(sql, host="string")
    second = write(sql.replace("'a'", "'b'").replace("5", "7"), host="string")
    assert first == second
    assert first.constants == ("a", 5)
    assert second.constants == ("b", 7)
    assert first.constant_types == ("string", "bigint")


def test_source_and_constants_are_put_between_the_parts_of_the_text() -> None:
    query = write("SELECT host, ts FROM cpu WHERE cpu > 5", host="string")
    assert query.sql("constants", "rows") == (
        'SELECT _c.rule AS rule, "cpu"."ts" AS ts, "cpu"."host" AS c0  FROM rows AS "cpu" '
        'CROSS JOIN constants AS _c WHERE ("cpu"."cpu" > _c.p0)'
    )


def test_only_filters_of_one_stream_carry_a_column_of_the_source() -> None:
    query = write("SELECT host, ts FROM cpu WHERE cpu > 5", host="string")
    assert query.is_filter
    assert query.sql("constants", carried="n").startswith("SELECT n, _c.rule AS rule, ")
    windows = "SELECT host, window.end AS ts FROM cpu GROUP BY host, window(ts, '1 minute')"
    join = "SELECT c.host, c.ts FROM cpu c JOIN hosts h ON h.host = c.host"
    subquery = "SELECT host, ts FROM (SELECT host, ts FROM cpu WHERE n > 1) s WHERE host > 'a'"
    for sql in (windows, join, subquery):
        assert not write(sql, host="string").is_filter


def test_sliding_windows_are_cut_into_panes() -> None:
    query = write(
        "SELECT host, window.end AS ts, avg(cpu) AS a FROM cpu "
        "GROUP BY host, window(ts, '10 minutes', '4 minutes')",
        host="string",
        a="double",
    )
    assert query.paned_query is not None
    assert query.paned_query.pane_length == 120_000_000
    assert 'sum("cpu"."cpu") AS a0_0, count("cpu"."cpu") AS a0_1' in query.paned_query.partial[0]


def test_relation_is_joined_after_the_table_of_constants() -> None:
    query = write(
        "SELECT c.ts, h.site FROM cpu c LEFT JOIN hosts h ON c.host = h.host AND h.site <> 'x'",
        site="string",
    )
    assert query.streams == {"cpu"}
    assert query.sql("constants") == (
        'SELECT _c.rule AS rule, "c"."ts" AS ts, "h"."site" AS c0  FROM "cpu" AS "c" '
        'CROSS JOIN constants AS _c LEFT JOIN "hosts" AS "h" ON '
        '(("c"."host" = "h"."host") AND ("h"."site" <> _c.p0))'
    )


def test_windows_over_a_join_have_no_panes() -> None:
    query = write(
        "SELECT window.end AS ts, site, count(*) AS n FROM cpu JOIN hosts USING (host) "
        "GROUP BY site, window(ts, '10 minutes', '4 minutes')",
        site="string",
        n="bigint",
    )
    assert query.paned_query is None


def test_spark_keeps_no_panes() -> None:
    sql = "SELECT max(ts) AS ts FROM cpu GROUP BY window(ts, '10 minutes', '4 minutes')"
    assert to_plain(parse(sql), TABLES, {}, SparkDialect()).paned_query is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT host, ts FROM cpu WHERE host RLIKE 'a'", "unsupported expression host RLIKE"),
        ("SELECT host, ts FROM cpu ORDER BY ts", "^ORDER BY$"),
        ("SELECT host, ts FROM cpu ORDER BY ts LIMIT 3", "^LIMIT, ORDER BY$"),
        ("SELECT DISTINCT host, ts FROM cpu", "^DISTINCT$"),
        ("SELECT host, ts FROM cpu WHERE d % 2 = 1", "of an unsupported type"),
        ("SELECT host, ts FROM cpu WHERE cpu % 2 = 1", "remainder of a non-integer"),
        ("SELECT host, ts FROM ping", "FROM without exactly one stream"),
        ("SELECT a.host, a.ts FROM cpu a JOIN cpu b ON a.ts = b.ts", "join of a table that"),
        ("SELECT c.host, c.ts FROM cpu c RIGHT JOIN hosts h ON c.host = h.host", "join other than"),
        (
            "SELECT c.host, c.ts FROM hosts h LEFT JOIN cpu c ON c.host = h.host",
            "FROM of a relation",
        ),
        ("SELECT host, ts FROM cpu JOIN hosts ON host = site", "ambiguous column host"),
        ("SELECT * FROM cpu JOIN hosts ON site = 'x'", "JOIN or EXCEPT"),
        ("SELECT c.host, c.ts FROM cpu c JOIN hosts h ON h.day = c.ts", "of an unsupported type"),
        ("SELECT a.host, a.ts FROM cpu a JOIN hosts A ON site = 'x'", "same name"),
        (
            "SELECT max(c.ts) AS ts FROM cpu c JOIN hosts h ON h.host = c.host "
            "GROUP BY window(h.ts, '1 minute')",
            "of an unsupported type",
        ),
        ("SELECT host, ts FROM cpu WHERE d > 5", "column d of an unsupported type"),
        ("SELECT x.host, x.ts FROM cpu AS x(ts, host, n)", "alias with column names"),
        (
            "SELECT x.host, x.ts FROM (SELECT ts, n, host FROM cpu) AS x(ts, host, n)",
            "alias with column names",
        ),
        (
            "SELECT c.host, c.ts FROM cpu c JOIN hosts AS h(site, host) ON h.host = c.host",
            "alias with column names",
        ),
        ("SELECT host, ts FROM cpu WHERE n > 2.5", "integers with a decimal constant"),
        ("SELECT host, ts FROM cpu WHERE 5 / n > 1", "may be zero"),
        ("SELECT n AS host, ts FROM cpu", "output column of a type other than"),
        ("SELECT host, ts, n FROM cpu", "unique name"),
    ],
)
def test_other_queries_are_left_to_spark(sql: str, message: str) -> None:
    with pytest.raises(SparkRequired, match=message):
        write(sql, host="string")


WRITER_TABLES = {
    "s": {"host": "string", "v": "double", "n": "bigint", "f": "float", "ok": "boolean"},
    "event": {"host": "string", "v": "double"},
}


def write_expression(sql: str) -> TypedExpression:
    writer = create_recall_writer(WRITER_TABLES, qualified_tables={"event"})
    return writer.write(parse(f"SELECT {sql}").expressions[0].unalias())


@pytest.mark.parametrize(
    ("sql", "written", "type_name"),
    [
        ("v > event.v", '("s"."v" > "event"."v")', "boolean"),
        ("v > 0.5", """("s"."v" > CAST('0.5' AS DOUBLE))""", "boolean"),
        ("n > 2.5", '("s"."n" > 2.5)', "boolean"),
        ("f > 0.5", '("s"."f" > CAST(0.5 AS FLOAT))', "boolean"),
        ("f + f", '("s"."f" + "s"."f")', "float"),
        ("f - v", '(CAST("s"."f" AS DOUBLE) - "s"."v")', "double"),
        ("-(5)", "(-CAST(5 AS INT))", "int"),
        ("host LIKE 'a%'", """("s"."host" LIKE 'a%')""", "boolean"),
        (r"host = 'it\'s'", """("s"."host" = 'it''s')""", "boolean"),
        (
            "CASE WHEN ok THEN v WHEN n > 2 THEN 1 END",
            '(CASE WHEN "s"."ok" THEN "s"."v" WHEN ("s"."n" > CAST(2 AS BIGINT)) '
            "THEN CAST('1' AS DOUBLE) ELSE CAST(NULL AS DOUBLE) END)",
            "double",
        ),
        ("NULL", "NULL", "null"),
    ],
)
def test_expression_is_written_with_explicit_types(sql: str, written: str, type_name: str) -> None:
    expression = write_expression(sql)
    assert (expression.sql, expression.type) == (written, type_name)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("f > 0.1", "values of different types"),  # no float is 0.1
        ("f > 16777217", "values of different types"),
        ("f > n", "values of different types"),
        ("f + 1", "arithmetic of a float and a constant"),
        ("n + 2.5", "arithmetic with decimal constants"),
        ("v / n", "divisor that may be zero"),
        (
            "host LIKE event.host",
            "LIKE of a non-string value, or with a pattern that is not constant",
        ),
        (r"host LIKE 'a\\%'", "LIKE with escapes"),
        ("CASE n WHEN 1 THEN v END", "CASE with a value to compare"),
        ("CASE WHEN ok THEN 'a' ELSE 1 END", "values of different types"),
        ("event.n", "column n of an unsupported type"),
        ("upper(host)", r"unsupported expression UPPER\(host\)"),
    ],
)
def test_expression_of_unequal_meaning_needs_spark(sql: str, reason: str) -> None:
    with pytest.raises(SparkRequired, match=reason):
        write_expression(sql)


def test_between_is_written_as_two_comparisons() -> None:
    """DuckDB casts all three values to one type: integers beyond 2^53 would become equal."""
    query = parse("SELECT n FROM s WHERE NOT n BETWEEN 1 AND 2.5 + x")
    assert to_duckdb_sql(query) == "SELECT n FROM s WHERE NOT (n >= 1 AND n <= 2.5 + x)"
