"""Engines of rule evaluation agree with Spark on the rule as written, evaluated alone or in a
shared query.

Rules are generated, with constants that differ and rows with nulls, NaN, infinities and large
numbers.
"""

import math
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from archiver.delta.schema import ARROW_TYPES
from archiver.time_range import TimeRange
from archiver.times import micros_column, to_micros
from moirae.evaluation import indexed_rules
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import EvaluationRequest, Events, RuleEngine
from moirae.evaluation.indexed_rules import IndexedRules
from moirae.evaluation.isolation import evaluate_groups
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice, input_view, relation_view
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.evaluation.statements import NumberedQuery, build_branches
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import DerivedQuery, Rule
from recall.engines.spark.statements import SparkStatements
from recall.query.shape import Shape, Tables
from tests.plain_columns import PLAIN_COLUMNS
from tests.progress import Progress
from tests.unit.moirae.evaluation.builders import evaluated_rules, make_request, run_engine

pytestmark = pytest.mark.services

START = datetime(2026, 1, 1, tzinfo=UTC)
END = to_micros(START + timedelta(days=1))
COLUMNS = {**PLAIN_COLUMNS, "f": "float"}
DERIVED = {
    "load": "SELECT host, window.end AS ts, avg(n) AS v, count(*) AS n FROM s GROUP BY host, window(ts, '1 minute')"
}
TABLES = Tables({"s": "ts"}, frozenset({"r"}), DERIVED)


def _rows() -> pa.Table:
    rng = random.Random(7)
    odd = [None, float("nan"), -0.0, 0.0, 1.5, 1e300, float("inf"), float("-inf")]
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for number in range(300):
        rows["ts"].append(
            START + timedelta(seconds=number * 3, microseconds=rng.choice([0, 0, 1, 999_999]))
        )
        rows["host"].append(rng.choice(["a", "b", "c", None, "d'", "é"]))
        rows["v"].append(rng.choice(odd) if rng.random() < 0.15 else float(rng.randrange(20)))
        rows["n"].append(
            rng.choice([None, 0, 1, -7, 1 << 40]) if rng.random() < 0.2 else rng.randrange(10)
        )
        rows["i"].append(rng.choice([None, 0, -3, 2]))
        rows["ok"].append(rng.choice([True, False, None]))
        rows["f"].append(rng.choice([0.5, None]))
    return pa.table(
        {name: pa.array(values, ARROW_TYPES[COLUMNS[name]]) for name, values in rows.items()}
    )


ROWS = _rows()

RELATION_COLUMNS = {
    "host": "string",
    "site": "string",
    "level": "int",
    "rate": "double",
    "since": "timestamp",
    "day": "date",
}


def _relation() -> pa.Table:
    """Row versions of a relation with several rows for a host.

    Versions begin before, during and after the rows, some at the very time of a row; some overlap,
    are valid at no time or follow after a gap. Any value may be NULL.
    """
    rng = random.Random(11)
    times = ROWS["ts"].to_pylist()
    begin, end = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    columns: dict[str, list[Any]] = {name: [] for name in RELATION_COLUMNS}
    valid_from: list[datetime] = []
    valid_to: list[datetime] = []
    for number in range(24):
        columns["host"].append(rng.choice(["a", "b", "d'", "é", None, "missing"]))
        columns["site"].append(rng.choice(["x", "y", None]))
        columns["level"].append(rng.choice([None, 0, 2, 5, 7]))
        columns["rate"].append(rng.choice([None, math.nan, -0.0, 3.0, 9.5, math.inf]))
        columns["since"].append(rng.choice([None, *times[:3]]))
        columns["day"].append(None)
        bounds = sorted(rng.choices(times, k=2))
        if number % 3 == 0:
            bounds[0] = begin
        if number % 4 == 0:
            bounds[1] = end
        if number % 7 == 0:
            bounds[1] = bounds[0]
        valid_from.append(bounds[0])
        valid_to.append(bounds[1])
    types = {name: ARROW_TYPES[RELATION_COLUMNS[name]] for name in RELATION_COLUMNS}
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    arrays["_valid_from"] = pa.array(valid_from, ARROW_TYPES["timestamp"])
    arrays["_valid_to"] = pa.array(valid_to, ARROW_TYPES["timestamp"])
    return pa.table(arrays)


RELATION = _relation()


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Spark with the rows, and a relation."""
    new_session = spark.newSession()
    # Each rule runs once: compiling it would take longer than evaluating it.
    new_session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    new_session.createDataFrame(ROWS).createOrReplaceTempView("s")
    # As in an archive, which has a column for undeclared fields.
    stored = ROWS.append_column("_extra", pa.nulls(len(ROWS), pa.string()))
    new_session.createDataFrame(stored).createOrReplaceTempView(input_view("s"))
    new_session.createDataFrame(
        RELATION.drop_columns(["_valid_from", "_valid_to"])
    ).createOrReplaceTempView("r")
    new_session.createDataFrame(RELATION).createOrReplaceTempView(relation_view("r"))
    for name, text in DERIVED.items():
        new_session.sql(text).createOrReplaceTempView(name)
    return new_session


def make_active_rule(session: SparkSession, name: str, expr: str) -> ActiveRule:
    """A rule of the expression, with the derived streams of this module."""
    derived = tuple(DerivedQuery("g", stream, text) for stream, text in DERIVED.items())
    rule = Rule("g", AlertSpec(alert=name, expr=expr), derived)
    types = {
        f.name: f.dataType.simpleString() for f in session.sql(expr).schema.fields if f.name != "ts"
    }
    return ActiveRule(Definition(rule, types, (), ()), TABLES, Shape(frozenset({"s"})))


EventsByRule = dict[int, list[tuple[int, dict[str, Any]]]]


def evaluate_as_written(session: SparkSession, rules: list[ActiveRule]) -> EventsByRule:
    """Evaluate each rule as written, by Spark."""
    grouper = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS})
    parts = [
        part
        for i, rule in enumerate(rules)
        for part in build_branches([NumberedQuery(i, rule, grouper._event_query(rule))])
    ]
    return _read(session.sql(" UNION ALL ".join(parts)).toArrow())


def evaluate_with_spark(session: SparkSession, rules: list[ActiveRule]) -> EventsByRule:
    """Evaluate the rules by shared queries, by Spark."""
    grouper = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS})
    groups = grouper.group(rules)
    in_order = [rule for group in groups for rule in group.rules]
    events = _read(SparkStatements(lambda: session).run(grouper.build_statement(groups)))
    return {rules.index(in_order[number]): rows for number, rows in events.items()}


def evaluate_locally(rules: list[ActiveRule]) -> tuple[EventsByRule, set[int]]:
    """Evaluate rules by DuckDB; also returns which rules it supports."""
    return _evaluate_with(_duckdb(), rules, make_request(ROWS))


def evaluate_with_panes(rules: list[ActiveRule]) -> tuple[EventsByRule, set[int]]:
    """Evaluate sliding windows by merging panes; also returns for which rules this is done."""
    rule_slice = RuleSlice(tuple(rules), TimeRange(None, END), TimeRange(None, END))
    panes = PaneCache(_duckdb(), SplitRows())
    return _evaluate_with(panes, rules, make_request(ROWS, rule_slice))


def evaluate_reduced(rules: list[ActiveRule]) -> tuple[EventsByRule, set[int]]:
    """Evaluate rules over the rows that the index leaves them, then by DuckDB."""
    columns = {"s": COLUMNS}
    grouper = RuleGrouper(columns, {"r": RELATION_COLUMNS})
    groups = [group for group in grouper.group(rules) if group.query is not None]
    with patch.object(indexed_rules, "_MAX_PLAIN_SHAPES", -1):
        evaluation = evaluate_groups(
            groups, make_request(ROWS), [IndexedRules(columns, grouper), _duckdb()]
        )
    events_by_rule: EventsByRule = {}
    for rule, event_rows in evaluation.event_rows.items():
        events_by_rule[rules.index(rule)] = [(row.ts, dict(row.attributes)) for row in event_rows]
    return events_by_rule, {rules.index(rule) for group in groups for rule in group.rules}


def _evaluate_with(
    engine: RuleEngine, rules: list[ActiveRule], request: EvaluationRequest
) -> tuple[EventsByRule, set[int]]:
    groups = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS}).group(rules)
    outcomes = run_engine(engine, groups, request)
    events_by_rule: EventsByRule = {}
    for outcome in outcomes:
        if isinstance(outcome, Events):
            for rule, event in outcome.event_rows:
                event_rows = events_by_rule.setdefault(rules.index(rule), [])
                event_rows.append((event.ts, dict(event.attributes)))
    return events_by_rule, set(map(rules.index, evaluated_rules(outcomes)))


def _duckdb() -> DuckDBRules:
    duckdb = DuckDBRules()
    duckdb.set_relation("r", RELATION)
    return duckdb


class SplitRows:
    """The rows, in two tables."""

    def count_in_memory(self, stream: str, time_range: TimeRange) -> None:
        """See `moirae.evaluation.panes.PaneInput`."""

    def read_tables(self, stream: str, time_range: TimeRange) -> list[pa.Table]:
        """See `moirae.evaluation.panes.PaneInput`."""
        return [ROWS.slice(0, 150), ROWS.slice(150)]


def _read(table: pa.Table) -> EventsByRule:
    events_by_rule: EventsByRule = {}
    rows = zip(
        table["rule"].to_pylist(),
        micros_column(table, "ts").tolist(),
        table["attributes"].to_pylist(),
        strict=True,
    )
    for rule_index, ts, text in rows:
        events_by_rule.setdefault(rule_index, []).append((ts, orjson.loads(text)))
    return events_by_rule


def are_equal(actual: EventsByRule, expected: EventsByRule) -> bool:
    """Equal rows for each rule, fractions to nine digits."""
    return actual.keys() == expected.keys() and all(
        len(rows) == len(expected[rule_index])
        and all(map(_are_rows_equal, _sorted(rows), _sorted(expected[rule_index])))
        for rule_index, rows in actual.items()
    )


def _sorted(rows: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    def rounded(value: Any) -> Any:
        return f"{value:.6g}" if isinstance(value, float) else value

    return sorted(
        rows, key=lambda row: (row[0], repr([rounded(value) for value in row[1].values()]))
    )


def _are_rows_equal(
    actual: tuple[int, Mapping[str, Any]], expected: tuple[int, Mapping[str, Any]]
) -> bool:
    return (
        actual[0] == expected[0]
        and list(actual[1]) == list(expected[1])
        and all(
            a == b
            or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9))
            for a, b in zip(actual[1].values(), expected[1].values(), strict=True)
        )
        and all(
            type(a) is type(b)
            for a, b in zip(actual[1].values(), expected[1].values(), strict=True)
        )
    )


SMALL = st.sampled_from(["0", "3", "7", "-2", "5000000000"])
FRACTION = st.sampled_from(["2", "9.5", "0.1", "-1.25", "1e1", "1e300"])
TEXT = st.sampled_from(["'a'", "'é'", "'zz'", "''"])
NUMBERS = st.one_of(
    st.sampled_from(["v", "n", "i", "v + n", "n - i", "-n", "(i)", "n * i", "v / 4", "n / 2"]),
    st.builds("n + {}".format, SMALL),
    st.builds("v * {}".format, FRACTION),
    st.builds("n % {}".format, st.sampled_from(["3", "-2", "10"])),
    st.builds("i * {}".format, st.sampled_from(["2", "-1"])),
    st.builds("CASE WHEN ok THEN v WHEN n > {} THEN {} END".format, SMALL, FRACTION),
)
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
PLAIN = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["v", "v * 2", "(v + n)"]), OPERATORS, FRACTION),
    st.builds("{} {} {}".format, st.sampled_from(["n", "i", "n + 1", "n * i"]), OPERATORS, SMALL),
    st.builds("host {} {}".format, OPERATORS, TEXT),
    st.builds("{} {} {}".format, NUMBERS, OPERATORS, st.sampled_from(["v", "n", "i"])),
    st.builds("n BETWEEN {} AND {}".format, SMALL, SMALL),
    st.builds("host IN ({}, {})".format, TEXT, TEXT),
    st.sampled_from(
        [
            *["ok", "v IS NULL", "host IS NOT NULL", "ok = true", "ts IS NOT NULL", "v = v"],
            *["host LIKE '%a_'", "host LIKE 'é'", "ok < (n > 3)", "host <> 'it\\'s \\\\ here'"],
            *["CASE WHEN ok THEN n > 3 WHEN v IS NULL THEN true END", "1 = 1", "v > 2 * 3"],
        ]
    ),
)
CONDITIONS = st.one_of(
    PLAIN,
    st.builds("NOT ({})".format, PLAIN),
    st.builds("({} AND {})".format, PLAIN, PLAIN),
    st.builds("({} OR {})".format, PLAIN, PLAIN),
)
OUTPUTS = st.one_of(
    NUMBERS, SMALL, TEXT, st.sampled_from(["host", "ok", "ts", "v > 3", "n IS NULL"])
)
ARGUMENTS = st.sampled_from(["v", "n", "i", "n % 3", "n + i"])
AGGREGATES = st.one_of(
    st.sampled_from(
        ["count(*)", "count(v)", "count(DISTINCT host)", "max(ts)", "min(host)", "sum(n) / 2"]
    ),
    st.builds("{}({})".format, st.sampled_from(["sum", "avg", "min", "max", "count"]), ARGUMENTS),
    st.builds("max({0}) - min({0})".format, ARGUMENTS),
)
HAVINGS = st.one_of(
    st.builds("count(*) {} {}".format, OPERATORS, SMALL),
    st.builds("avg(n) {} {}".format, OPERATORS, FRACTION),
    st.builds("max(i) > {} AND host <> {}".format, SMALL, TEXT),
)
WINDOWS = st.sampled_from(
    [
        "'1 minute'",
        "'90 seconds'",
        "'3 minutes', '1 minute'",
        "'50 seconds', '20 seconds', '7 seconds'",
    ]
)


@st.composite
def filters(draw: st.DrawFn) -> str:
    """A rule that filters rows."""
    outputs = [
        f"{output} AS o{number}"
        for number, output in enumerate(draw(st.lists(OUTPUTS, max_size=3)))
    ]
    where = draw(st.lists(CONDITIONS, max_size=2))
    source = draw(
        st.sampled_from(["s", "s AS x", "(SELECT ts, host, v, n, i, ok FROM s WHERE n > 2) AS y"])
    )
    return f"SELECT {', '.join(['ts', *outputs])} FROM {source}" + (
        f" WHERE {' AND '.join(where)}" if where else ""
    )


@st.composite
def windows(draw: st.DrawFn) -> str:
    """A rule over windows."""
    keys = draw(st.sampled_from([[], ["host"], ["host", "ok"], ["n"]]))
    outputs = [
        f"{output} AS o{number}"
        for number, output in enumerate(draw(st.lists(AGGREGATES, max_size=3)))
    ]
    ts = draw(st.sampled_from(["window.end", "window.start", "max(ts)"]))
    where = draw(st.lists(CONDITIONS, max_size=1))
    having = draw(
        st.lists(
            HAVINGS if "host" in keys else HAVINGS.filter(lambda h: "host" not in h), max_size=1
        )
    )
    return (
        f"SELECT {', '.join([f'{ts} AS ts', *keys, *outputs])} FROM s"
        + (f" WHERE {where[0]}" if where else "")
        + f" GROUP BY {', '.join([*keys, f'window(ts, {draw(WINDOWS)})'])}"
        + (f" HAVING {having[0]}" if having else "")
    )


JOIN_CONDITIONS = st.one_of(
    st.sampled_from(
        [
            "x.host = y.host",
            "x.n = y.level",
            "x.i <= y.level AND x.host = y.host",
            "x.v = y.rate",
            "x.host = y.host AND x.v > y.rate",
            "x.host <> y.host AND y.level IS NOT NULL",
            "x.ts > y.since",
        ]
    ),
    st.builds("x.host = y.host AND y.level > {}".format, SMALL),
    st.builds("x.host = y.host AND (x.n > {} OR y.site = 'x')".format, SMALL),
)
RELATION_OUTPUTS = st.sampled_from(
    [
        "y.site",
        "y.level",
        "y.rate",
        "y.level + x.n",
        "y.site IS NULL",
        "y.since",
        "site",
        "rate * 2",
    ]
)
STREAM_OUTPUTS = st.sampled_from(["x.host", "x.v", "x.n * 2", "v", "x.ok", "x.ts"])
JOIN_FILTERS = st.one_of(
    st.builds("x.n > {}".format, SMALL),
    st.builds("x.v > {}".format, FRACTION),
    st.builds("x.host = {}".format, TEXT),
)
JOINED_STREAMS = st.sampled_from(
    ["s AS x", "(SELECT ts, host, v, n, i, ok FROM s WHERE n > 2) AS x"]
)


@st.composite
def joins(draw: st.DrawFn) -> str:
    """A rule that joins rows with a relation as of their time."""
    stream, condition = draw(JOINED_STREAMS), draw(JOIN_CONDITIONS)
    kind = draw(
        st.sampled_from(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "first", ","])
    )
    where = draw(st.lists(JOIN_FILTERS, max_size=1))
    if kind == "first":
        source = f"r AS y JOIN {stream} ON {condition}"
    elif kind == ",":
        source = f"{stream}, r AS y"
        where.append(condition)
    else:
        source = f"{stream} {kind} r AS y ON {condition}"
    outputs = draw(st.lists(STREAM_OUTPUTS, max_size=2))
    if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
        outputs += draw(st.lists(RELATION_OUTPUTS, max_size=2))
        where += draw(st.lists(st.builds("y.level > {}".format, SMALL), max_size=1))
    listed = [f"{output} AS o{number}" for number, output in enumerate(outputs)]
    tail = f" WHERE {' AND '.join(where)}" if where else ""
    if not draw(st.booleans()):
        return f"SELECT {', '.join(['x.ts', *listed])} FROM {source}{tail}"
    key = "x.host"
    if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
        key = draw(st.sampled_from(["x.host", "y.site", "y.level"]))
    return (
        f"SELECT window.end AS ts, {key} AS k, count(*) AS c, avg(x.n) AS a FROM {source}{tail} "
        f"GROUP BY {key}, window(x.ts, {draw(WINDOWS)}) HAVING count(*) > {draw(SMALL)}"
    )


EXAMPLES = [
    [
        f"SELECT host, ts, v * {k} AS w FROM s WHERE v > {k}.5 AND n % 10 <> {k}"
        for k in range(1, 5)
    ],
    [f"SELECT host, ts, v FROM load WHERE v > {k} AND host = 'a'" for k in range(3)],
    [
        "SELECT host, ts, v FROM (SELECT * FROM s) AS y WHERE v > 3",
        "SELECT host, ts, n AS x FROM (SELECT * FROM s) AS y WHERE n > 7",
    ],
    [
        f"SELECT host, window.end AS ts, max(v) AS top, sum(n % {k + 2}) AS o, {k} AS k FROM s "
        f"WHERE i <> {k} "
        f"GROUP BY host, window(ts, '2 minutes', '30 seconds') HAVING max(v) > {k}"
        for k in range(3)
    ],
    [
        f"SELECT host, window.end AS ts, avg(v) AS v, count(DISTINCT ok) AS c FROM s "
        f"GROUP BY host, window(ts, '1 minute') HAVING avg(n) > {k}"
        for k in range(3)
    ],
]


def _agree(session: SparkSession, texts: list[str]) -> set[int]:
    """Compare all evaluations of rules; returns the indexes of those that DuckDB supports."""
    rules = [make_active_rule(session, f"R{number}", text) for number, text in enumerate(texts)]
    expected = evaluate_as_written(session, rules)
    assert are_equal(evaluate_with_spark(session, rules), expected)
    events_by_rule, rule_indexes = evaluate_locally(rules)
    assert are_equal(
        events_by_rule,
        {rule_index: rows for rule_index, rows in expected.items() if rule_index in rule_indexes},
    )
    reduced_events, reduced_indexes = evaluate_reduced(rules)
    assert are_equal(
        reduced_events,
        {
            rule_index: rows
            for rule_index, rows in expected.items()
            if rule_index in reduced_indexes
        },
    )
    paned_events, paned_indexes = evaluate_with_panes(rules)
    assert are_equal(
        paned_events,
        {rule_index: rows for rule_index, rows in expected.items() if rule_index in paned_indexes},
    )
    return rule_indexes


@pytest.mark.slow
def test_common_rules_are_evaluated_by_duckdb_like_by_spark(session: SparkSession) -> None:
    """Filters, windows, derived streams, constants anywhere."""
    texts = [text for texts in EXAMPLES for text in texts]
    rules = [make_active_rule(session, f"R{number}", text) for number, text in enumerate(texts)]
    assert all(
        evaluate_as_written(session, rules).get(rule_index) for rule_index in (0, 4, 7, 9, 12)
    ), "each has events"
    assert _agree(session, texts) == set(range(len(texts)))
    assert evaluate_with_panes(
        [make_active_rule(session, f"R{number}", text) for number, text in enumerate(EXAMPLES[3])]
    )[1] == {0, 1, 2}


JOIN_EXAMPLES = [
    *[
        f"SELECT x.host, x.ts, x.v, y.site FROM s x JOIN r y ON x.host = y.host WHERE x.v > {k}"
        for k in (1, 2)
    ],
    "SELECT host, ts, site FROM s JOIN r USING (host)",
    "SELECT s.*, r.site FROM (SELECT ts, host, n FROM s) AS s LEFT JOIN r ON r.host = s.host",
    "SELECT x.ts, y.site, z.level FROM s x JOIN r y ON x.host = y.host "
    "LEFT JOIN r z ON y.site = z.site AND z.level > 1",
    "SELECT x.ts, x.host, x.v, y.site FROM load x JOIN r y ON x.host = y.host WHERE x.n > 2",
    "SELECT ts, host FROM (SELECT x.ts, x.host, y.level FROM s x JOIN r y ON x.host = y.host) AS z "
    "WHERE level > 1",
    "SELECT window.end AS ts, site, count(*) AS c FROM "
    "(SELECT x.ts, y.site FROM s x JOIN r y ON x.host = y.host) AS z "
    "GROUP BY site, window(ts, '3 minutes', '1 minute')",
    "SELECT x.ts, x.c, y.site FROM (SELECT window.end AS ts, host, count(*) AS c FROM s "
    "GROUP BY host, window(ts, '3 minutes', '1 minute')) AS x JOIN r AS y ON x.host = y.host",
]


@pytest.mark.slow
def test_rows_are_joined_with_relations_as_of_their_time(session: SparkSession) -> None:
    rules = [
        make_active_rule(session, f"R{number}", text) for number, text in enumerate(JOIN_EXAMPLES)
    ]
    expected = evaluate_as_written(session, rules)
    assert set(expected) == set(range(len(rules))), "each rule has events"
    assert _agree(session, JOIN_EXAMPLES) == set(range(len(rules)))
    groups = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS}).group(rules)
    assert groups[0].rules == tuple(rules[:2])


def test_panes_do_not_outlive_the_relation_that_they_were_joined_with(
    session: SparkSession,
) -> None:
    """Windows over a join are computed from rows; windows that are joined may come from panes."""
    rules = [
        make_active_rule(session, f"R{number}", text) for number, text in enumerate(JOIN_EXAMPLES)
    ]
    assert evaluate_with_panes(rules)[1] == {8}


@pytest.mark.slow
@settings(
    max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.lists(joins(), min_size=4, max_size=8))
def test_all_engines_agree_on_a_join_with_a_relation(
    session: SparkSession, texts: list[str]
) -> None:
    assert _agree(session, texts) == set(range(len(texts)))


@settings(
    max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(st.lists(st.one_of(filters(), windows()), min_size=4, max_size=8))
def test_all_engines_agree_on_a_rule(session: SparkSession, texts: list[str]) -> None:
    _agree(session, texts)


PROGRESS = Progress("sets of rules", 10)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(
    max_examples=150,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.one_of(filters(), windows(), joins()), min_size=4, max_size=8))
def test_all_engines_agree_on_many_rules(session: SparkSession, texts: list[str]) -> None:
    _agree(session, texts)
    PROGRESS.step()


def test_rules_that_differ_in_constants_share_one_query(session: SparkSession) -> None:
    """Rules with other differences do not."""
    text = "SELECT host, ts, v FROM s WHERE host = '{}' AND v > {}"
    rules = [
        make_active_rule(session, f"R{k}", text.format("abc"[k % 3], k / 7)) for k in range(50)
    ]
    rules.append(
        make_active_rule(session, "Other", "SELECT host, ts, v FROM s WHERE host = 'a' AND v >= 3")
    )
    groups = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS}).group(rules)
    assert [(len(group.rules), group.query is None) for group in groups] == [
        (50, False),
        (1, False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT host, ts FROM s WHERE host LIKE host",
        "SELECT host, ts FROM s WHERE host LIKE 'a\\\\%'",
        "SELECT upper(host) AS host, ts FROM s",
        "SELECT host, ts, f FROM s WHERE f > 0.1",
        "SELECT host, ts, v / n AS q FROM s",
        "SELECT host, ts, n % 0 AS q FROM s WHERE n > 100",
        "SELECT host, ts, n FROM s WHERE n > 2.5",
        "SELECT host, ts, 1.5 AS d FROM s",
        "SELECT s.host, s.ts, r.day FROM s JOIN r ON s.host = r.host",
        "SELECT s.ts, r.site FROM s JOIN r ON upper(s.host) = r.host",
        "SELECT s.ts, t.n FROM s JOIN s AS t ON s.host = t.host AND s.ts = t.ts",
        "SELECT window.end AS ts, stddev(v) AS d FROM s GROUP BY window(ts, '1 minute')",
        "SELECT DISTINCT host, ts FROM s",
        "SELECT t.ts, t.n FROM (SELECT ts, n, i FROM s) AS t(ts, i, n)",
        "SELECT host, ts FROM s WHERE ts > '2026-01-01'",
    ],
)
def test_unsupported_rule_is_evaluated_by_spark(session: SparkSession, text: str) -> None:
    grouper = RuleGrouper({"s": COLUMNS}, {"r": RELATION_COLUMNS})
    (group,) = grouper.group([make_active_rule(session, "R", text)])
    assert group.query is None


def test_rule_that_fails_in_duckdb_is_evaluated_by_spark(session: SparkSession) -> None:
    """An overflow is an error in both engines; other rules are evaluated."""
    rules = [
        make_active_rule(session, "Over", "SELECT ts, n * 9000000000000000000 AS o FROM s"),
        make_active_rule(session, "Good", "SELECT ts, n FROM s WHERE n > 3"),
    ]
    assert evaluate_locally(rules)[1] == {1}
