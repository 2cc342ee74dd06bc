"""A query over all of history, by Spark, and the same taken apart and merged piece by piece: one
answer.

Generated queries, rows (NULL, NaN, infinities, -0.0, empty texts, large numbers, decimals) and
borders between pieces. All pieces of a query are read in one Spark job: each is the share of an
event of its own.
"""

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
from archiver.times import to_micros
from recall.engines import answers
from recall.engines.local import LocalEngine
from recall.engines.partial_cache import PartialCache
from recall.engines.pending_events import JSON_WRITE_OPTIONS, PendingEvent, create_pending_frame
from recall.engines.router import EngineRouter
from recall.engines.spark import SparkEngine
from recall.engines.template import PENDING_TABLE, Template, merge_partials
from recall.errors import SparkRequired
from recall.query.lift import lift_query
from recall.requests import RecallEvent, SqlQuestion
from tests.progress import Progress

pytestmark = pytest.mark.spark

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
class One:
    """An output: as it is asked, and as Spark is asked for the same where order is nobody's."""

    asked: str
    spark: str


def same(text: str) -> One:
    return One(text, text)


def formed(shape: str, *values: st.SearchStrategy[str]) -> st.SearchStrategy[One]:
    return st.builds(lambda *given: same(shape.format(*given)), *values)


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
    st.just(same("count(*)")),
    formed("count({})", ANY),
    formed(
        "{}({})",
        st.sampled_from(["sum", "avg", "mean"]),
        st.sampled_from(["s.v", "s.d", "s.n % 100", "s.n % 3"]),
    ),
    formed("{}({})", st.sampled_from(["min", "max"]), ANY),
    formed(
        "{}({})", st.sampled_from("stddev std variance var_pop stddev_pop var_samp".split()), SMALL
    ),
    formed("count(DISTINCT {})", ANY),
    st.just(same("count(DISTINCT s.host, s.b)")),
    formed("{}(DISTINCT {})", st.sampled_from(["sum", "avg"]), SMALL),
    formed("{}({}, s.ts)", st.sampled_from(["min_by", "max_by"]), ANY),
    formed("{}(s.b)", st.sampled_from("bool_and bool_or every any some count_if".split())),
    formed("{}(s.n)", st.sampled_from("bit_and bit_or bit_xor".split())),
    formed(
        "{}",
        st.sampled_from(
            ["median(s.n % 9)", "percentile(s.d, 0.25)", "percentile(s.v, array(0.1, 0.9))"]
        ),
    ),
    st.builds(
        lambda how, what: One(f"{how}({what})", f"sort_array({how}({what}))"),
        st.sampled_from(["collect_set", "collect_list", "array_agg"]),
        ANY,
    ),
    st.builds(lambda what: One(f"approx_count_distinct({what})", f"count(DISTINCT {what})"), ANY),
)
NESTED = st.one_of(
    formed("sum({}) / nullif(count(*), 0)", st.sampled_from(["s.v", "s.d"])),
    formed("max({0}) - min({0})", st.sampled_from(["s.v", "s.d", "s.n % 5"])),
    st.just(
        same(
            "CASE WHEN avg(s.n % 10) > 1 THEN 'high' WHEN count(s.n) = 0 THEN 'none' ELSE 'low' END"
        )
    ),
    st.just(same("coalesce(max(s.ts), event.ts)")),
    st.just(same("round(coalesce(avg(s.d), 0), 2) + count(DISTINCT s.host)")),
    st.just(same("concat(max(s.host), '-', count(*))")),
)
FILTERED = st.builds(
    lambda one, condition: same(f"{one} FILTER (WHERE {condition})"),
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
class Asking:
    """A query in both forms; `keys`: how many of its first columns identify a row; None: the order
    of rows counts.
    """

    asked: str
    spark: str
    keys: int | None


@st.composite
def queries(draw: st.DrawFn) -> Asking:
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
        return Asking(
            f"{text} {order} {limit}", f"{text} {order or 'ORDER BY s.ts DESC'} {limit}", None
        )
    keys = [] if kind == "whole" else draw(st.lists(KEYS, min_size=1, max_size=2, unique=True))
    ones = (
        []
        if kind == "distinct"
        else draw(st.lists(st.one_of(SIMPLE, SIMPLE, NESTED, FILTERED), min_size=1, max_size=4))
    )
    tail, counted = "", False
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
        # By an output's name, or what it is made of; beside HAVING Spark by itself knows only
        # names.
        both = kind == "groups" and "HAVING" not in tail
        either = [[f"k{n}", key] if both else [f"k{n}"] for n, key in enumerate(keys)]
        names = ", ".join(draw(st.sampled_from(forms)) for forms in either)
        most = "count(*) DESC, " if both else ""
        tail += f" ORDER BY {most}{names}{draw(st.sampled_from(['', ' LIMIT 2']))}"
        counted = True
    source = draw(st.sampled_from(["s", "s", "(SELECT * FROM s WHERE n IS NULL OR n < 4) s"]))
    if any(key.startswith("r.") for key in keys):
        source += draw(
            st.sampled_from([" JOIN r ON r.host = s.host", " LEFT JOIN r ON r.host = s.host"])
        )
    texts = []
    for form in ("asked", "spark"):
        outputs = [f"{key} AS k{n}" for n, key in enumerate(keys)]
        outputs += [f"{getattr(one, form)} AS c{n}" for n, one in enumerate(ones)]
        distinct = "DISTINCT " if kind == "distinct" else ""
        texts.append(f"SELECT {distinct}{', '.join(outputs)} FROM {source}{_where(wheres)}{tail}")
    return Asking(texts[0], texts[1], None if counted else len(keys))


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""


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


def known_types(spark: SparkSession, sql: str) -> Template:
    """The question with the types that the check of a rule finds out."""
    names = ({"s": "ts"}, ("r",), {}, {"host": "string"}, {}, {})
    template = Template(SqlQuestion(None, 1.0, "newest", sql, *names))
    if template.split.type_probe is None:
        return template
    lifted = lift_query(template.split.type_probe, template._scope(frozenset()), template._bindings)
    types = {field.name: field.dataType.simpleString() for field in spark.sql(lifted.sql).schema}
    return Template(replace(template.question, types=types))


def in_pieces(
    spark: SparkSession, asking: str, rows: DataFrame, borders: list[int], event: RecallEvent
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
        (replace(event, eid=UUID(int=100 + n)), (n, *piece))
        for n, piece in enumerate(pairwise(edges))
    ]
    _views(spark, rows, event)
    template = known_types(spark, asking)
    partials = engine.compute_partial(template, pieces, {})  # type: ignore[arg-type]
    held: pa.Table | None = None
    for asked, _ in reversed(pieces):
        found = partials.get(str(asked.eid))
        if found is not None:
            eid = pa.array([str(event.eid)] * len(found))
            found = found.set_column(found.schema.get_field_index("_eid"), "_eid", eid)
        held = merge_partials(template, held, found)
    answer = (
        EngineRouter(engine, None, PartialCache())
        .compute_answers(template, [(event, held)], {})
        .get(str(event.eid), [])
    )
    with suppress(SparkRequired):
        here = answers.compute_answers(template, [(event, held)], [LocalEngine(Memory(rows)).merge])  # type: ignore[arg-type]
        assert alike(here.get(str(event.eid), []), answer), (asking, here, answer)
    return answer


def _views(spark: SparkSession, rows: DataFrame, event: RecallEvent) -> None:
    rows.createOrReplaceTempView("_in_s")
    spark.createDataFrame(SITES).createOrReplaceTempView("_in_r")
    create_pending_frame(
        spark, [PendingEvent(event, None, END)], {"host": "string"}
    ).createOrReplaceTempView(PENDING_TABLE)


def at_once(spark: SparkSession, text: str, event: RecallEvent) -> list[dict[str, Any]]:
    """What Spark says to the query as it stands, over all rows."""
    values = text.replace("event.host", "'a'").replace("event.ts", f"timestamp_micros({event.ts})")
    frame = spark.sql(values)
    shown = frame.select(
        F.to_json(F.struct(*[F.col(f"`{c}`") for c in frame.columns]), JSON_WRITE_OPTIONS)
    )
    return [json.loads(row[0]) for row in shown.collect()]


def alike(one: Any, other: Any) -> bool:
    """Equal; fractions to nine digits, where 0 is what is left when numbers of up to 1000 cancel
    out.
    """
    # An answer does not tell which inputs it is made of, so what may be left is that of the
    # largest, whatever they are: sums of 30 numbers of up to 1000 are off by some 1e-11, and the
    # root of a variance by more.
    if (
        isinstance(one, float | int)
        and isinstance(other, float | int)
        and not isinstance(one, bool)
    ):
        return one == other or (
            isinstance(one, float) and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-7)
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[name], other[name]) for name in one)
    return bool(one == other)


def _by_keys(rows: list[dict[str, Any]], keys: int | None) -> list[dict[str, Any]]:
    if keys is None:
        return rows
    return sorted(
        rows,
        key=lambda row: json.dumps([0.0 if one == 0 else one for one in list(row.values())[:keys]]),
    )


EVENT = RecallEvent(UUID(int=1), END, {}, {"host": "a"})
SETTINGS = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],
}


def check(spark: SparkSession, table: pa.Table, asking: Asking, borders: list[int]) -> None:
    rows = spark.createDataFrame(table)
    rows.createOrReplaceTempView("s")
    spark.createDataFrame(SITES.select(["host", "site"])).createOrReplaceTempView("r")
    whole = at_once(spark, asking.spark, EVENT)
    found = in_pieces(spark, asking.asked, rows, borders, EVENT)
    assert alike(_by_keys(found, asking.keys), _by_keys(whole, asking.keys)), (
        asking.asked,
        found,
        whole,
    )


@settings(max_examples=25, **SETTINGS)
@given(tables(), queries(), st.lists(st.integers(1, MINUTES), max_size=4))
def test_pieces_make_the_whole(
    spark: SparkSession, table: pa.Table, asking: Asking, borders: list[int]
) -> None:
    """The merged answer is that of the query over everything."""
    check(spark, table, asking, borders)


def test_rows_without_an_order_have_one_all_the_same(spark: SparkSession) -> None:
    """Whichever engine merges: `in_pieces` compares them."""
    ts = pa.array([to_micros(START) + n for n in range(9)], pa.timestamp("us", tz="UTC"))
    rows = spark.createDataFrame(
        pa.table({"ts": ts, "n": [None, 1, -1] * 3, "v": [-1e-39, 0.0, None] * 3})
    )
    asking = "SELECT n % 2 AS k, sum(v) / nullif(count(*), 0) AS c FROM s GROUP BY n % 2"
    assert len(in_pieces(spark, asking, rows, [], EVENT)) == 3


PROGRESS = Progress("queries", 50)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=1000, **SETTINGS)
@given(tables(), queries(), st.lists(st.integers(1, MINUTES), max_size=6))
def test_pieces_make_the_whole_for_long(
    spark: SparkSession, table: pa.Table, asking: Asking, borders: list[int]
) -> None:
    """The same, for many more queries."""
    check(spark, table, asking, borders)
    PROGRESS.step()


def test_sketches_keep_to_their_error(spark: SparkSession) -> None:
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
    asking = "SELECT approx_count_distinct(host) AS n, approx_percentile(v, array(0.1, 0.5, 0.99)) AS q FROM s"
    ((answer),) = in_pieces(spark, asking, rows, list(range(5, 55, 5)), EVENT)
    exact = len(Counter(columns["host"]))
    assert abs(answer["n"] - exact) <= 4 * 0.0163 * exact
    ordered = sorted(columns["v"])
    for share, value in zip((0.1, 0.5, 0.99), answer["q"], strict=True):
        assert abs(sum(v <= value for v in ordered) / count - share) <= 0.006
