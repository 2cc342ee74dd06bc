"""A query over all history in Spark equals its partial answers, merged piece by piece.

Generated queries, rows (NULL, NaN, infinities, -0.0, empty texts, large numbers, decimals) and
borders between pieces. All pieces of a query are read in one Spark job, each as the piece of an
event of its own.
"""

import functools
import json
import math
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.delta.schema import StreamSchema
from archiver.time_range import TimeRange
from archiver.times import to_micros
from recall.engines import answers
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.pending_events import JSON_WRITE_OPTIONS, PendingEvent, create_pending_frame
from recall.engines.routing.partial_cache import PartialCache
from recall.engines.routing.router import EngineRouter
from recall.engines.spark.engine import SparkEngine
from recall.engines.template import PENDING_TABLE, Template, merge_partials
from recall.errors import SparkRequired
from recall.query.lift import lift_query
from recall.requests import Piece, RecallEvent, SqlQuestion
from tests.progress import Progress

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "v": "double",
    "n": "bigint",
    "d": "decimal(12,3)",
    "b": "boolean",
    "day": "date",
}
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, ("host",), timedelta(0), timedelta(0))
MINUTES = 60
END = to_micros(START + timedelta(minutes=MINUTES))
SITES = pa.table(
    {
        "host": ["a", "b", ""],
        "site": ["x", "x", "y"],
        "_valid_from": pa.array([0] * 3, pa.timestamp("us", tz="UTC")),
        "_valid_to": pa.array([1 << 52] * 3, pa.timestamp("us", tz="UTC")),
    }
)

ROW = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["a", "b", "", None, "ü'"]),
        "v": st.one_of(
            st.none(),
            st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0]),
            *[st.floats(-1000, 1000, width=32)] * 4,
        ),
        "n": st.one_of(
            st.none(), st.integers(-5, 5), st.sampled_from([1 << 53, -(1 << 53) - 1, 1 << 60])
        ),
        "d": st.one_of(
            st.none(),
            st.decimals(-999_999_999, 999_999_999, places=3),
            st.sampled_from([Decimal("0.001")]),
        ),
        "b": st.sampled_from([True, False, None]),
        "day": st.sampled_from([date(2026, 1, 1), date(1969, 12, 31), None]),
    }
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of the stream, each at a time of its own."""
    rows = draw(st.lists(ROW, max_size=30))
    times = draw(st.permutations(range(len(rows))))
    step = MINUTES * 60 / max(len(rows), 1)
    full = [
        {**row, "ts": START + timedelta(seconds=step * at)}
        for row, at in zip(rows, times, strict=True)
    ]
    kinds = {
        "v": pa.float64(),
        "n": pa.int64(),
        "d": pa.decimal128(12, 3),
        "b": pa.bool_(),
        "day": pa.date32(),
    }
    fields = {"ts": pa.timestamp("us", tz="UTC"), "host": pa.string(), **kinds}
    return pa.Table.from_pylist(full, pa.schema(list(fields.items())))


@dataclass(frozen=True)
class Output:
    """An output in a recall, and in a query of Spark that yields it in a defined order."""

    recall: str
    spark: str


def same_output(text: str) -> Output:
    return Output(text, text)


def outputs_like(template: str, *values: st.SearchStrategy[str]) -> st.SearchStrategy[Output]:
    return st.builds(lambda *arguments: same_output(template.format(*arguments)), *values)


ANY = st.sampled_from(["s.host", "s.v", "s.n", "s.d", "s.b", "s.day", "s.ts"])
NUMBER = st.sampled_from(
    ["s.v", "s.n", "s.d", "s.v + 1", "s.n % 3", "CASE WHEN s.b THEN s.v ELSE 0 END"]
)
SMALL = st.sampled_from(["s.v", "s.n % 7", "s.d"])
WHEN = st.sampled_from(
    [
        "s.v > 2",
        "s.n IN (1, 2, 3)",
        "s.host = 'a'",
        "s.host = event.host",
        "s.b",
        "s.v IS NULL",
        "s.n BETWEEN -1 AND 3",
        "s.host LIKE '%b%' OR s.v = 0",
        "NOT s.b",
        "s.day < DATE'2000-01-01'",
        "isnan(s.v)",
        "s.d > 1.5",
    ]
)
SIMPLE = st.one_of(
    st.just(same_output("count(*)")),
    outputs_like("count({})", ANY),
    outputs_like(
        "{}({})",
        st.sampled_from(["sum", "avg", "mean"]),
        st.sampled_from(["s.v", "s.d", "s.n % 100", "s.n % 3"]),
    ),
    outputs_like("{}({})", st.sampled_from(["min", "max"]), ANY),
    outputs_like(
        "{}({})", st.sampled_from("stddev std variance var_pop stddev_pop var_samp".split()), SMALL
    ),
    outputs_like("count(DISTINCT {})", ANY),
    st.just(same_output("count(DISTINCT s.host, s.b)")),
    outputs_like("{}(DISTINCT {})", st.sampled_from(["sum", "avg"]), SMALL),
    outputs_like("{}({}, s.ts)", st.sampled_from(["min_by", "max_by"]), ANY),
    outputs_like("{}(s.b)", st.sampled_from("bool_and bool_or every any some count_if".split())),
    outputs_like("{}(s.n)", st.sampled_from("bit_and bit_or bit_xor".split())),
    outputs_like(
        "{}",
        st.sampled_from(
            ["median(s.n % 9)", "percentile(s.d, 0.25)", "percentile(s.v, array(0.1, 0.9))"]
        ),
    ),
    st.builds(
        lambda name, value: Output(f"{name}({value})", f"sort_array({name}({value}))"),
        st.sampled_from(["collect_set", "collect_list", "array_agg"]),
        ANY,
    ),
    st.builds(
        lambda value: Output(f"approx_count_distinct({value})", f"count(DISTINCT {value})"), ANY
    ),
)
NESTED = st.one_of(
    outputs_like("sum({}) / nullif(count(*), 0)", st.sampled_from(["s.v", "s.d"])),
    outputs_like("max({0}) - min({0})", st.sampled_from(["s.v", "s.d", "s.n % 5"])),
    st.just(
        same_output(
            "CASE WHEN avg(s.n % 10) > 1 THEN 'high' WHEN count(s.n) = 0 THEN 'none' ELSE 'low' END"
        )
    ),
    st.just(same_output("coalesce(max(s.ts), event.ts)")),
    st.just(same_output("round(coalesce(avg(s.d), 0), 2) + count(DISTINCT s.host)")),
    st.just(same_output("concat(max(s.host), '-', count(*))")),
)
FILTERED = st.builds(
    lambda aggregate, condition: same_output(f"{aggregate} FILTER (WHERE {condition})"),
    st.sampled_from(
        [
            "count(*)",
            "sum(s.d)",
            "avg(s.v)",
            "max(s.ts)",
            "stddev(s.d)",
            "count(DISTINCT s.host)",
            "median(s.d)",
            "max_by(s.host, s.ts)",
            "avg(s.d)",
            "bool_or(s.b)",
        ]
    ),
    WHEN,
)
KEYS = st.sampled_from(
    [
        "s.host",
        "s.b",
        "s.day",
        "s.v",
        "s.d",
        "upper(s.host)",
        "s.n % 2",
        "date_trunc('HOUR', s.ts)",
        "r.site",
    ]
)


@dataclass(frozen=True)
class QueryPair:
    """A recall, and a query of Spark with the same answer.

    `keys`: how many of the first columns identify a row; None: the order of rows counts.
    """

    recall: str
    spark: str
    keys: int | None


@st.composite
def queries(draw: st.DrawFn) -> QueryPair:
    """Groups, aggregates, DISTINCT, HAVING, ORDER BY, LIMIT, a join with a relation, a subquery."""
    kind = draw(st.sampled_from(["whole", "groups", "groups", "distinct", "rows"]))
    wheres = draw(st.lists(WHEN, max_size=2))
    if kind == "rows":
        order = draw(
            st.sampled_from(
                [
                    "",
                    "ORDER BY s.ts",
                    "ORDER BY t DESC",
                    "ORDER BY s.host, 1",
                    "ORDER BY s.v DESC, s.ts",
                ]
            )
        )
        text = f"SELECT s.ts AS t, s.host AS h, s.v * 2 AS w FROM s{_where(wheres)}"
        limit = f"LIMIT {draw(st.integers(1, 9))}"
        return QueryPair(
            f"{text} {order} {limit}", f"{text} {order or 'ORDER BY s.ts DESC'} {limit}", None
        )
    keys = [] if kind == "whole" else draw(st.lists(KEYS, min_size=1, max_size=2, unique=True))
    outputs = (
        []
        if kind == "distinct"
        else draw(st.lists(st.one_of(SIMPLE, SIMPLE, NESTED, FILTERED), min_size=1, max_size=4))
    )
    tail, is_ordered = "", False
    if kind == "groups":
        tail = " GROUP BY " + draw(
            st.sampled_from([", ".join(keys), ", ".join(str(n + 1) for n in range(len(keys)))])
        )
        tail += draw(
            st.sampled_from(
                ["", "", " HAVING count(*) > 1", " HAVING max(s.d) > 0 AND count(s.v) > 0"]
            )
        )
    if kind != "whole" and draw(st.booleans()):
        # By an output's name or its expression; with HAVING, Spark itself knows only names.
        names_expressions = kind == "groups" and "HAVING" not in tail
        forms_by_key = [
            [f"k{n}", key] if names_expressions else [f"k{n}"] for n, key in enumerate(keys)
        ]
        names = ", ".join(draw(st.sampled_from(forms)) for forms in forms_by_key)
        first_entry = "count(*) DESC, " if names_expressions else ""
        tail += f" ORDER BY {first_entry}{names}{draw(st.sampled_from(['', ' LIMIT 2']))}"
        is_ordered = True
    source = draw(st.sampled_from(["s", "s", "(SELECT * FROM s WHERE n IS NULL OR n < 4) s"]))
    if any(key.startswith("r.") for key in keys):
        source += draw(
            st.sampled_from([" JOIN r ON r.host = s.host", " LEFT JOIN r ON r.host = s.host"])
        )
    texts = []
    for form in ("recall", "spark"):
        columns = [f"{key} AS k{n}" for n, key in enumerate(keys)]
        columns += [f"{getattr(output, form)} AS c{n}" for n, output in enumerate(outputs)]
        distinct = "DISTINCT " if kind == "distinct" else ""
        texts.append(f"SELECT {distinct}{', '.join(columns)} FROM {source}{_where(wheres)}{tail}")
    return QueryPair(texts[0], texts[1], None if is_ordered else len(keys))


def _where(conditions: list[str]) -> str:
    return (
        f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
    )


class Memory:
    """Stands for the archive's files: the rows of one table."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    def refresh(self) -> None: ...

    def local_paths(self, *_: Any) -> list[str]:
        return ["one"]

    def read_dataframe(self, *_: Any) -> DataFrame:
        return self._rows

    def schema(self, _: str) -> StreamSchema:
        return SCHEMA


def with_types(spark: SparkSession, sql: str) -> Template:
    """The template with the types that checking a rule determines."""
    tables = ({"s": "ts"}, ("r",), {}, {"host": "string"}, {}, {})
    template = Template(SqlQuestion(None, 1.0, "newest", sql, *tables))
    if template.split.type_probe is None:
        return template
    lifted = lift_query(template.split.type_probe, template._scope(frozenset()), template._bindings)
    types = {field.name: field.dataType.simpleString() for field in spark.sql(lifted.sql).schema}
    return Template(replace(template.question, types=types))


def answer_in_pieces(
    spark: SparkSession, sql: str, rows: DataFrame, borders: list[int], event: RecallEvent
) -> list[dict[str, Any]]:
    """The answer from the pieces between borders (minutes), read in one job, merged one by one,
    newest first.
    """
    engine = SparkEngine(lambda: spark, Memory(rows), lambda _: SITES)  # type: ignore[arg-type]
    edges = [
        None,
        *(to_micros(START + timedelta(minutes=b)) for b in sorted(set(borders) - {MINUTES})),
        END,
    ]
    pieces = [
        (replace(event, eid=UUID(int=100 + n)), Piece(n, *piece))
        for n, piece in enumerate(pairwise(edges))
    ]
    _create_views(spark, rows, event)
    template = with_types(spark, sql)
    partials = engine.compute_partial(template, pieces, {})  # type: ignore[arg-type]
    accumulator: pa.Table | None = None
    for piece_event, _ in reversed(pieces):
        partial = partials.get(str(piece_event.eid))
        if partial is not None:
            eid = pa.array([str(event.eid)] * len(partial))
            index = partial.schema.get_field_index("_eid")
            partial = partial.set_column(index, "_eid", eid)
        accumulator = merge_partials(template, accumulator, partial)
    answer = (
        EngineRouter(engine, None, PartialCache())
        .compute_answers(template, [(event, accumulator)], {})
        .get(str(event.eid), [])
    )
    with suppress(SparkRequired):
        local = LocalEngine(Memory(rows))  # type: ignore[arg-type]
        local_answers = answers.compute_answers(
            template, [(event, accumulator)], functools.partial(local.merge, template)
        )
        local_answer = local_answers.get(str(event.eid), [])
        assert is_close(local_answer, answer), (sql, local_answer, answer)
    return answer


def _create_views(spark: SparkSession, rows: DataFrame, event: RecallEvent) -> None:
    rows.createOrReplaceTempView("_in_s")
    spark.createDataFrame(SITES).createOrReplaceTempView("_in_r")
    create_pending_frame(
        spark, [PendingEvent(event, TimeRange(None, END))], {"host": "string"}
    ).createOrReplaceTempView(PENDING_TABLE)


def answer_at_once(spark: SparkSession, sql: str, event: RecallEvent) -> list[dict[str, Any]]:
    """The answer of the query over all rows, by Spark alone."""
    constants = sql.replace("event.host", "'a'").replace(
        "event.ts", f"timestamp_micros({event.ts})"
    )
    frame = spark.sql(constants)
    json_rows = frame.select(
        F.to_json(F.struct(*[F.col(f"`{c}`") for c in frame.columns]), JSON_WRITE_OPTIONS)
    )
    return [json.loads(row[0]) for row in json_rows.collect()]


def is_close(a: Any, b: Any) -> bool:
    """Equal, with fractions equal to nine digits and an absolute tolerance."""
    # An answer does not show from which inputs it was computed, so the tolerance is that of the
    # largest: sums of 30 numbers of up to 1000 are off by some 1e-11 where these cancel out, and
    # the root of a variance by more.
    if isinstance(a, float | int) and isinstance(b, float | int) and not isinstance(a, bool):
        return a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-7))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_close, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(is_close(a[name], b[name]) for name in a)
    return bool(a == b)


def _by_keys(rows: list[dict[str, Any]], keys: int | None) -> list[dict[str, Any]]:
    if keys is None:
        return rows
    return sorted(
        rows,
        key=lambda row: json.dumps(
            [0.0 if value == 0 else value for value in list(row.values())[:keys]]
        ),
    )


EVENT = RecallEvent(UUID(int=1), END, {}, {"host": "a"})
SETTINGS = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],
}


def check(spark: SparkSession, table: pa.Table, query_pair: QueryPair, borders: list[int]) -> None:
    rows = spark.createDataFrame(table)
    rows.createOrReplaceTempView("s")
    spark.createDataFrame(SITES.select(["host", "site"])).createOrReplaceTempView("r")
    expected = answer_at_once(spark, query_pair.spark, EVENT)
    answer = answer_in_pieces(spark, query_pair.recall, rows, borders, EVENT)
    assert is_close(_by_keys(answer, query_pair.keys), _by_keys(expected, query_pair.keys)), (
        query_pair.recall,
        answer,
        expected,
    )


@pytest.mark.slow
@settings(max_examples=8, **SETTINGS)
@given(tables(), queries(), st.lists(st.integers(1, MINUTES), max_size=4))
def test_merged_answer_equals_the_query_over_all_rows(
    spark: SparkSession, table: pa.Table, query_pair: QueryPair, borders: list[int]
) -> None:
    check(spark, table, query_pair, borders)


def test_rows_without_order_by_have_a_fixed_order(spark: SparkSession) -> None:
    """Whichever engine merges; `answer_in_pieces` compares them."""
    ts = pa.array([to_micros(START) + n for n in range(9)], pa.timestamp("us", tz="UTC"))
    rows = spark.createDataFrame(
        pa.table({"ts": ts, "n": [None, 1, -1] * 3, "v": [-1e-39, 0.0, None] * 3})
    )
    sql = "SELECT n % 2 AS k, sum(v) / nullif(count(*), 0) AS c FROM s GROUP BY n % 2"
    assert len(answer_in_pieces(spark, sql, rows, [], EVENT)) == 3


PROGRESS = Progress("queries", 50)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=1000, **SETTINGS)
@given(tables(), queries(), st.lists(st.integers(1, MINUTES), max_size=6))
def test_merged_answer_equals_the_query_over_all_rows_at_length(
    spark: SparkSession, table: pa.Table, query_pair: QueryPair, borders: list[int]
) -> None:
    check(spark, table, query_pair, borders)
    PROGRESS.step()


def test_sketches_stay_within_their_error_bounds(spark: SparkSession) -> None:
    """Merged sketches over 20,000 rows in eleven pieces lie within what their aggregates state."""
    rng = random.Random(3)
    count, hosts = 20_000, 6_000
    columns = {
        "ts": pa.array(
            [to_micros(START) + n * 180_000 for n in range(count)], pa.timestamp("us", tz="UTC")
        ),
        "host": [f"h{rng.randrange(hosts)}" for _ in range(count)],
        "v": [rng.lognormvariate(0, 2) for _ in range(count)],
    }
    rows = spark.createDataFrame(pa.table(columns))
    sql = (
        "SELECT approx_count_distinct(host) AS n, "
        "approx_percentile(v, array(0.1, 0.5, 0.99)) AS q FROM s"
    )
    ((answer),) = answer_in_pieces(spark, sql, rows, list(range(5, 55, 5)), EVENT)
    exact = len(Counter(columns["host"]))
    assert abs(answer["n"] - exact) <= 4 * 0.0163 * exact
    ordered = sorted(columns["v"])
    for share, value in zip((0.1, 0.5, 0.99), answer["q"], strict=True):
        assert abs(sum(v <= value for v in ordered) / count - share) <= 0.006
