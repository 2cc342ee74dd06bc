"""Windows since a time of the day are the same in DuckDB, from panes, in Spark and by the clock."""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from archiver.delta.schema import ARROW_TYPES
from archiver.time_range import TimeRange
from archiver.times import Micros, micros_column, to_micros
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import Events, RuleEngine
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import ActiveRule, RuleSlice, input_view
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.evaluation.statements import NumberedQuery, build_branches
from recall.engines.spark.statements import SparkStatements
from recall.history_ranges import DAY, MINUTE, Landmark, parse_landmark
from tests.sampled import every
from tests.unit.moirae.evaluation.builders import COLUMNS, make_request, make_rule, run_engine

TYPES = {"host": "string", "since": "timestamp", "c": "bigint", "t": "double"}
EXPR = (
    "SELECT host, window.start AS since, window.end AS ts, count(*) AS c, max(v) AS t FROM s "
    "WHERE v > {low} GROUP BY host, window(ts, since('{time}', '{zone}'){step}) HAVING count(*) > 1"
)
# Around changes of clocks: by an hour and half an hour, over a landmark that is skipped or repeated.
CASES = [
    ("07:00", "Europe/Rome", 15, datetime(2026, 3, 28, tzinfo=UTC)),
    ("02:30", "Europe/Rome", 60, datetime(2026, 3, 28, tzinfo=UTC)),
    ("02:30", "Europe/Rome", 45, datetime(2026, 10, 24, tzinfo=UTC)),
    ("22:10", "Australia/Lord_Howe", 60, datetime(2026, 4, 3, tzinfo=UTC)),
    ("07:00", "UTC", 90, datetime(2026, 3, 28, tzinfo=UTC)),
    ("00:00", "Europe/Rome", None, datetime(2026, 10, 23, tzinfo=UTC)),
    ("12:00", "Pacific/Apia", 30, datetime(2011, 12, 28, tzinfo=UTC)),
]
Found = set[tuple[int, tuple[Any, ...]]]


def make_rows(start: datetime) -> pa.Table:
    """Rows of four days, some at the full hour."""
    rng = random.Random(start.day)
    columns: dict[str, list[Any]] = {"ts": [], "host": [], "v": []}
    for _ in range(400):
        seconds = rng.randrange(4 * 86_400)
        if rng.random() < 0.2:
            seconds = seconds // 1_800 * 1_800
        columns["ts"].append(start + timedelta(seconds=seconds))
        columns["host"].append(rng.choice(["a", "b", None]))
        columns["v"].append(rng.choice([None, 1.0, 2.5, 7.0]))
    return pa.table(
        {name: pa.array(column, ARROW_TYPES[COLUMNS[name]]) for name, column in columns.items()}
    )


def count_by_clock(rows: pa.Table, landmark: Landmark, step: Micros | None, low: int) -> Found:
    """The windows that each row belongs to, by walking from landmark to landmark."""
    times = micros_column(rows, "ts").tolist()
    walk = range(min(times) // MINUTE * MINUTE - DAY, max(times) + 2 * DAY, 5 * MINUTE)
    landmarks = sorted(set(map(landmark.find_before, walk)))
    counts: Counter[tuple[Any, Micros, Micros]] = Counter()
    highest: dict[tuple[Any, Micros, Micros], float] = {}
    for ts, row in zip(times, rows.to_pylist(), strict=True):
        if row["v"] is None or row["v"] <= low:
            continue
        position = bisect_right(landmarks, ts)
        since, until = landmarks[position - 1], landmarks[position]
        ends = {until}
        if step is not None:
            ends |= {end for end in range(since + step, until, step) if end > ts}
        for end in ends:
            key = row["host"], since, end
            counts[key] += 1
            highest[key] = max(highest.get(key, -1.0), row["v"])
    found: Found = set()
    for (host, since, end), count in counts.items():
        if count > 1:
            found.add((end, (host, since, count, highest[host, since, end])))
    return found


class AllRows:
    """Rows for panes, in two tables."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def count_in_memory(self, stream: str, time_range: TimeRange) -> None:
        """See `moirae.evaluation.panes.PaneInput`."""

    def read_tables(self, stream: str, time_range: TimeRange) -> list[pa.Table]:
        """See `moirae.evaluation.panes.PaneInput`."""
        rows = self.rows.filter(pa.array(time_range.mask(micros_column(self.rows, "ts"))))
        return [rows.slice(0, 150), rows.slice(150)]


def make_rules(time: str, zone: str, minutes: int | None) -> list[ActiveRule]:
    """Two rules of one shape."""
    step = "" if minutes is None else f", '{minutes} minutes'"
    texts = [EXPR.format(low=low, time=time, zone=zone, step=step) for low in (0, 1)]
    return [make_rule(f"R{number}", text, TYPES) for number, text in enumerate(texts)]


def evaluate(
    engine: RuleEngine, rules: list[ActiveRule], rows: pa.Table, time_range: TimeRange
) -> list[Found]:
    """What an engine finds of each rule."""
    input_range = time_range.shift(start=-rules[0].shape.reach)
    inputs = rows.filter(pa.array(input_range.mask(micros_column(rows, "ts"))))
    rule_slice = RuleSlice(tuple(rules), time_range, input_range)
    groups = RuleGrouper({"s": COLUMNS}).group(rules)
    assert len(groups) == 1
    found: list[Found] = [set() for _ in rules]
    for outcome in run_engine(engine, groups, make_request(inputs, rule_slice)):
        assert isinstance(outcome, Events)
        for rule, row in outcome.event_rows:
            if time_range.contains(row.ts):
                found[rules.index(rule)].add((row.ts, _to_tuple(row.attributes)))
    return found


def _to_tuple(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    since = attributes["since"]
    if not isinstance(since, datetime):
        since = datetime.fromisoformat(since)
    return attributes["host"], to_micros(since), attributes["c"], attributes["t"]


@pytest.mark.parametrize(("time", "zone", "minutes", "start"), every(3, CASES))
def test_windows_in_duckdb_and_from_panes_are_those_of_the_clock(
    time: str, zone: str, minutes: int | None, start: datetime
) -> None:
    rows, rules = make_rows(start), make_rules(time, zone, minutes)
    landmark = parse_landmark(time, zone)
    step = None if minutes is None else minutes * MINUTE
    expected = [count_by_clock(rows, landmark, step, low) for low in (0, 1)]
    assert all(expected)
    everything = TimeRange(None, to_micros(start) + 7 * DAY)
    assert evaluate(DuckDBRules(), rules, rows, everything) == expected
    assert evaluate(PaneCache(DuckDBRules(), AllRows(rows)), rules, rows, everything) == expected
    # In slices, as live evaluation does: each window is found once, at its end.
    rng = random.Random(minutes)
    by_slice: list[Found] = [set(), set()]
    by_pane: list[Found] = [set(), set()]
    panes = PaneCache(DuckDBRules(), AllRows(rows))
    low = to_micros(start) - DAY
    assert everything.end is not None
    while low < everything.end:
        high = low + rng.choice([MINUTE, 7 * MINUTE, DAY // 3]) * rng.randrange(1, 9)
        part = TimeRange(low, high)
        for number, found in enumerate(evaluate(DuckDBRules(), rules, rows, part)):
            by_slice[number] |= found
        for number, found in enumerate(evaluate(panes, rules, rows, part)):
            by_pane[number] |= found
        low = high
    within = [{event for event in events if event[0] < low} for events in expected]
    assert by_slice == within
    assert by_pane == within


@pytest.mark.services
@pytest.mark.parametrize(("time", "zone", "minutes", "start"), every(3, CASES))
def test_windows_in_spark_are_those_of_the_clock(
    spark: SparkSession, time: str, zone: str, minutes: int | None, start: datetime
) -> None:
    rows, rules = make_rows(start), make_rules(time, zone, minutes)
    landmark = parse_landmark(time, zone)
    step = None if minutes is None else minutes * MINUTE
    expected = [count_by_clock(rows, landmark, step, low) for low in (0, 1)]
    session = spark.newSession()
    session.createDataFrame(rows).createOrReplaceTempView(input_view("s"))
    grouper = RuleGrouper({"s": COLUMNS})
    as_written = " UNION ALL ".join(
        branch
        for number, rule in enumerate(rules)
        for branch in build_branches([NumberedQuery(number, rule, rule.bind_event_query())])
    )
    assert _read(session.sql(as_written).toArrow()) == expected
    statement = grouper.build_statement(grouper.group(rules))
    assert _read(SparkStatements(lambda: session).run(statement)) == expected


def _read(table: pa.Table) -> list[Found]:
    found: list[Found] = [set(), set()]
    times = micros_column(table, "ts").tolist()
    for number, ts, text in zip(
        table["rule"].to_pylist(), times, table["attributes"].to_pylist(), strict=True
    ):
        found[number].add((ts, _to_tuple(orjson.loads(text))))
    return found
