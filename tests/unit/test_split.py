"""What can be taken apart into pieces of history, and what is refused with its place and reason."""

import pyarrow as pa
import pytest
from sqlglot import exp

from recall.errors import LimitExceeded
from recall.operators.aggregates import merge_tables
from recall.operators.limits import MAX_ROWS, MAX_VALUES
from recall.query.bind import PhysicalTables
from recall.query.lift import EventScope, TableBindings, lift_query
from recall.query.parsing import Unsupported, order_columns
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables(
    {"cpu": "ts", "ping": "at"},
    frozenset({"hosts"}),
    {
        "load": "SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '5 minutes')"
    },
)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT first(cpu) AS n FROM cpu", "first cannot be split .* min_by(x, ts)"),
        ("SELECT mode(host) AS n FROM cpu", "use GROUP BY"),
        ("SELECT regr_slope(cpu, cpu) AS n FROM cpu", "regr_slope cannot be split"),
        ("SELECT stddev(DISTINCT cpu) AS n FROM cpu", "group by its value"),
        ("SELECT percentile(cpu, cpu) AS p FROM cpu", "must be literals between 0 and 1"),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY cpu) AS p FROM cpu",
            "use percentile(x, 0.5)",
        ),
        ("SELECT max_by(cpu, ts, 3) AS p FROM cpu", "two arguments"),
        ("SELECT listagg(host) AS p FROM cpu", "array_join"),
        ("SELECT host FROM cpu ORDER BY ts LIMIT 3 OFFSET 2", "OFFSET"),
        ("SELECT cpu FROM cpu", "needs a LIMIT"),
        ("SELECT * FROM cpu LIMIT 3", "names its columns"),
        ("SELECT count(*) AS n FROM cpu c JOIN ping p ON c.host = p.host", "one stream"),
        ("SELECT site FROM hosts LIMIT 1", "reads none"),
        ("SELECT count(*) AS n FROM (SELECT DISTINCT host FROM cpu) x", "outside it"),
        (
            "SELECT count(*) AS n FROM (SELECT host FROM cpu UNION SELECT host FROM ping) x",
            "only UNION ALL",
        ),
        ("SELECT host FROM (SELECT host FROM cpu) x LIMIT 3", "needs an ORDER BY"),
        ("SELECT host FROM cpu UNION SELECT host FROM ping", "one SELECT"),
        ("SELECT rank() OVER (ORDER BY ts) AS r FROM cpu LIMIT 3", "OVER"),
        (
            "SELECT DISTINCT host, count(*) AS n FROM cpu GROUP BY host LIMIT 3",
            "leave DISTINCT out",
        ),
        ("SELECT host, count(*) AS n FROM cpu", "neither grouped"),
        ("SELECT count(*) AS n FROM cpu GROUP BY ROLLUP (host)", "plain expressions"),
    ],
)
def test_refusals_say_why(sql: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message.replace("(", r"\(").replace(")", r"\)")):
        split_query(sql, TABLES)


def test_the_same_aggregate_is_computed_once() -> None:
    parts = split_query(
        "SELECT avg(cpu) AS a, avg(cpu) + 1 AS b, host AS h FROM cpu GROUP BY host", TABLES
    )
    assert len(parts.aggregates) == 1
    assert parts.groups == ("_g0",)


@pytest.mark.parametrize(
    "order",
    [
        "host",
        "host DESC",
        "n DESC, host",
        "upper(host)",
        "date_trunc('HOUR', ts)",
        "host NULLS LAST",
        "1",
        "count(*), host",
    ],
)
def test_rows_are_ordered_by_what_they_are_grouped_by(order: str) -> None:
    """Whether it says in which direction or not."""
    key = order if ("(" in order and "," not in order) or order.startswith("date") else "host"
    sql = f"SELECT {key}, count(*) AS n FROM cpu GROUP BY {key} ORDER BY {order} LIMIT 10"
    (*_, last) = split_query(sql, TABLES).merge.args["order"].expressions
    assert isinstance(last, exp.Ordered)


def test_plain_outputs_need_no_query_to_merge() -> None:
    assert split_query("SELECT avg(cpu) AS a, count(*) AS n FROM cpu", TABLES).direct_columns == {
        "a": "_v0",
        "n": "_v1",
    }
    assert split_query(
        "SELECT max(exists(array(cpu), x -> x > 1)) AS a FROM cpu", TABLES
    ).direct_columns == {"a": "_v0"}
    assert split_query("SELECT avg(cpu) + 1 AS a FROM cpu", TABLES).direct_columns is None
    assert (
        split_query(
            "SELECT host, count(*) AS n FROM cpu GROUP BY host HAVING count(*) > 1", TABLES
        ).direct_columns
        is None
    )


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT event.nothing AS x FROM cpu", "no attribute 'nothing'"),
        ("SELECT host FROM elsewhere", "unknown table"),
        ("SELECT host FROM cpu WHERE EXISTS (SELECT 1 FROM ping)", "EXISTS"),
        ("SELECT (SELECT max(cpu) FROM cpu) AS x FROM ping", "FROM only"),
        ("SELECT host FROM cpu RIGHT JOIN hosts USING (host)", "RIGHT"),
        ("SELECT host FROM cpu AS event", "reserved for the new event"),
        ("SELECT DISTINCT host FROM cpu LIMIT 3", "DISTINCT"),
    ],
)
def test_queries_about_events_that_are_refused(sql: str, message: str) -> None:
    names = TableBindings(
        PhysicalTables({n: n for n in ("cpu", "ping", "hosts")}),
        PhysicalTables({"cpu": "cpu"}),
        "pending",
    )
    with pytest.raises(Unsupported, match=message):
        lift_query(sql, EventScope(TABLES, ("host",)), names)


def test_what_is_read_is_known() -> None:
    names = TableBindings(
        PhysicalTables({n: n for n in ("cpu", "ping", "hosts")}),
        PhysicalTables({"cpu": "cpu"}),
        "pending",
    )
    used = lift_query(
        "SELECT cpu FROM load WHERE host = event.host", EventScope(TABLES, ("host",)), names
    ).inputs
    assert (used.streams, used.derived, used.reach) == (frozenset(), {"cpu"}, 300_000_000)
    used = lift_query(
        "SELECT cpu FROM cpu c WHERE c.host = event.host", EventScope(TABLES, ("host",)), names
    ).inputs
    assert used.attribute_filters == (("cpu", "host", "host"),)


def test_answers_keep_the_order_of_the_select() -> None:
    stored = [{"n": 1, "mean": 2.0, "COUNT(DISTINCT h)": 3}]
    (row,) = order_columns("SELECT avg(x) AS mean, count(DISTINCT h), count(*) AS n FROM s", stored)
    assert list(row) == ["mean", "COUNT(DISTINCT h)", "n"]


def test_other_names_of_aggregates_are_known() -> None:
    parts = split_query(
        "SELECT mean(cpu) AS a, std(cpu) AS s, every(cpu > 1) AS e, any(cpu > 1) AS o FROM cpu",
        TABLES,
    )
    assert {one.kind for one in parts.aggregates} == {"avg", "stddev_samp", "min", "max"}


def test_what_is_held_is_limited() -> None:
    parts = split_query("SELECT host, count(DISTINCT cpu) AS n FROM cpu GROUP BY host", TABLES)
    many = {"_eid": ["e"] * (MAX_ROWS + 1), "_g0": list(map(str, range(MAX_ROWS + 1)))}
    with pytest.raises(LimitExceeded, match="100,000 groups"):
        merge_tables(parts, None, pa.table({**many, "_a0_0": [[1]] * (MAX_ROWS + 1)}))
    with pytest.raises(
        LimitExceeded, match=r"COUNT\(DISTINCT cpu\) exceeds .* approx_count_distinct"
    ):
        merge_tables(
            parts,
            None,
            pa.table({"_eid": ["e"], "_g0": ["a"], "_a0_0": [list(range(MAX_VALUES + 1))]}),
        )
