"""Plain stateless rules over archived files, in tasks."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from archiver.delta.data_files import cast_to_fields
from archiver.delta.schema import ARROW_TYPES, StreamSchema
from archiver.delta.table import StreamTable
from archiver.errors import TaskLost
from archiver.time_range import TimeRange
from archiver.times import micros_column
from moirae.evaluation import executor_rules
from moirae.evaluation.duckdb_rules import DuckDBRules
from moirae.evaluation.engine import Declined, RuleEventRows
from moirae.evaluation.executor_rules import ExecutorRules, PastTasks, is_executable
from moirae.evaluation.isolation import evaluate_groups
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from recall.errors import MemoryExceeded, SparkRequired
from recall.query.shape import Tables, infer_shape
from recall.statements import (
    NO_EXTERNAL_ACCESS,
    DuckDBStatements,
    FileRows,
    PartOutcome,
    PartStatement,
    Statement,
    part_task,
)
from tests.inline_jobs import InlineJobs
from tests.unit.moirae.evaluation.builders import (
    COLUMNS,
    START,
    START_MICROS,
    event_rows_of,
    make_filter,
    make_request,
    make_rows,
    make_rule,
    run_engine,
)

SECOND = 1_000_000  # microseconds
RULES = [make_filter("A", 20.0), make_filter("B", 90.0)]
GROUPS = RuleGrouper({"s": COLUMNS}).group(RULES)
SCHEMA = StreamSchema("s", COLUMNS, "ts", None, (), timedelta(0), timedelta(0))


def archive(
    folder: Path, rows: pa.Table, files: int, late: frozenset[int] = frozenset()
) -> StreamTable:
    """A table with the rows in so many files. `late`: positions of late rows."""
    table = StreamTable(folder, SCHEMA)
    count = len(rows)
    assert count % files == 0
    added = {
        "_late": pa.array([position in late for position in range(count)]),
        "chunk": pa.array([0] * count, pa.int32()),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    rows = cast_to_fields(rows, list(SCHEMA.arrow_schema()))
    for number in range(files):
        table.append(rows.slice(number * count // files, count // files), 0)
    return table


def sort(event_rows: RuleEventRows) -> list[tuple[str, int, str]]:
    """Event rows in an order."""
    return sorted((rule.name, row.ts, repr(row.attributes)) for rule, row in event_rows)


def table_rows(table: StreamTable) -> pa.Table:
    """All on-time rows."""
    files = [table.files.read_on_time(file.path, list(COLUMNS)) for file in table.data_files()]
    return pa.concat_tables(files)


def file_rows(table: StreamTable, low: int | None = None, high: int | None = None) -> FileRows:
    time_range = TimeRange(low, high)
    return FileRows(table.files, table.data_files(time_range), time_range)


def test_events_in_files_are_those_in_memory(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = make_rows(*(rng.uniform(0, 100) for _ in range(120)))
    table = archive(tmp_path, rows, files=6)
    outcomes = run_engine(ExecutorRules(InlineJobs(), 60.0), GROUPS, make_request(file_rows(table)))
    expected = run_engine(DuckDBRules(), GROUPS, make_request(rows))
    assert sort(event_rows_of(outcomes)) == sort(event_rows_of(expected)) != []


def test_only_on_time_rows_in_the_range_are_read(tmp_path: Path) -> None:
    table = archive(tmp_path, make_rows(*[50.0] * 10), files=2, late=frozenset({4}))
    rows = file_rows(table, START_MICROS + 2 * SECOND, START_MICROS + 7 * SECOND)
    outcomes = run_engine(ExecutorRules(InlineJobs(), 60.0), GROUPS, make_request(rows))
    event_rows = event_rows_of(outcomes)
    seconds = sorted((row.ts - START_MICROS) // SECOND for _, row in event_rows)
    assert seconds == [2, 3, 5, 6]


def test_group_that_fails_in_a_task_is_declined(tmp_path: Path) -> None:
    table = archive(tmp_path, make_rows(*[50.0] * 4), files=2)
    (group,) = GROUPS
    text = group.plain_query.text
    broken = replace(group.plain_query, text=(text[0] + "error('x'), ", *text[1:]))
    failing = replace(group, query=broken)
    request = make_request(file_rows(table))
    declined, events = run_engine(ExecutorRules(InlineJobs(), 60.0), [failing, group], request)
    assert isinstance(declined, Declined)
    assert len(event_rows_of([events])) == 4


def _fail_constant(value: float, error: str) -> Any:
    """Runs statements; one whose constants have a value fails."""
    run = part_task._run

    def run_or_fail(duckdb: Any, statement: PartStatement) -> PartOutcome:
        (constants,) = statement.statement.tables.values()
        if value not in constants["p0"].to_pylist():
            return run(duckdb, statement)
        if error == "died":
            raise TaskLost
        if error == "time":
            return PartOutcome(70.0, run(duckdb, statement).result)
        return PartOutcome(0.1, None, "memory", "out of memory")

    return run_or_fail


@pytest.mark.parametrize(
    ("failure", "expected"),
    [("time", None), ("memory", MemoryExceeded), ("died", TaskLost)],
)
def test_only_the_rule_that_exceeds_a_limit_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str, expected: type[Exception] | None
) -> None:
    table = archive(tmp_path, make_rows(*[50.0] * 4), files=2)
    rules = [make_filter(name, 20.0 + number) for number, name in enumerate("ABCDE")]
    (group,) = RuleGrouper({"s": COLUMNS}).group(rules)
    monkeypatch.setattr(part_task, "_run", _fail_constant(23.0, failure))
    tasks = ExecutorRules(InlineJobs(), 60.0)
    # Rows of a file that takes too long are evaluated in memory.
    engines = [tasks, DuckDBRules()]
    evaluation = evaluate_groups([group], make_request(file_rows(table)), engines)
    failures = [(failure.rule.name, type(failure.error)) for failure in evaluation.failures]
    counts = {rule.name: len(rows) for rule, rows in evaluation.event_rows.items()}
    assert [counts[f"g/{name}"] for name in "ABCE"] == [4] * 4
    if expected is None:
        assert (failures, counts["g/D"]) == ([], 4)
    else:
        assert set(failures) == {("g/D", expected)}
        assert "g/D" not in counts


@pytest.mark.parametrize("failure", ["time", "memory", "died"])
def test_past_that_exceeds_a_limit_is_declined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    table = archive(tmp_path, make_rows(*[50.0] * 4), files=2)
    monkeypatch.setattr(part_task, "_run", _fail_constant(20.0, failure))
    past = PastTasks(lambda count: count >= 4, max_event_rows=100)
    (outcome,) = run_engine(
        ExecutorRules(InlineJobs(), 60.0, past), GROUPS, make_request(file_rows(table))
    )
    assert isinstance(outcome, Declined)


WINDOW = make_rule(
    "W",
    "SELECT host, window.end AS ts, count(*) AS n, sum(v) AS v FROM s "
    "GROUP BY host, window(ts, '1 minute', '20 seconds')",
    {"host": "string", "n": "bigint", "v": "double"},
)


def test_new_rows_are_evaluated_by_rules_of_one_row_only() -> None:
    rules = [make_filter("A", 1.0), WINDOW]
    groups = RuleGrouper({"s": COLUMNS}).group(rules)
    assert [is_executable(group, in_slice=False) for group in groups] == [True, False]
    assert [is_executable(group, in_slice=True) for group in groups] == [True, True]


@pytest.mark.parametrize("start", [None, 100])
@pytest.mark.parametrize("reach_of_input", [True, False])
def test_windows_in_parts_of_a_slice_are_those_of_the_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int | None, reach_of_input: bool
) -> None:
    monkeypatch.setattr(executor_rules, "MIN_TASK_ROWS", 50)
    rng = random.Random(4)
    rows = make_rows(*(float(rng.randrange(100)) for _ in range(600)))
    table = archive(tmp_path, rows, files=8)
    low = None if start is None else START_MICROS + start * SECOND
    event_range = TimeRange(low, START_MICROS + 500 * SECOND)
    input_range = event_range.shift(start=-WINDOW.shape.reach, end=WINDOW.shape.lag)
    rule_slice = RuleSlice((WINDOW,), event_range, input_range)
    files = table.data_files(input_range if reach_of_input else TimeRange())
    parts = executor_rules.divide_slice(
        rule_slice, FileRows(table.files, files, input_range), cores=2
    )
    assert len(parts) == 4
    groups = RuleGrouper({"s": COLUMNS}).group([WINDOW])
    request = make_request(FileRows(table.files, files, input_range), rule_slice)
    outcomes = run_engine(ExecutorRules(InlineJobs(), 60.0), groups, request)
    in_range = rows.filter(pa.array(input_range.mask(micros_column(rows, "ts"))))
    expected = event_rows_of(run_engine(DuckDBRules(), groups, make_request(in_range)))
    complete = [(rule, row) for rule, row in expected if event_range.contains(row.ts)]
    assert sort(event_rows_of(outcomes)) == sort(complete) != []


def make_started(folder: Path) -> tuple[ExecutorRules, InlineJobs, StreamTable, RuleSlice]:
    """A started job of `RULES` over all rows of a table."""
    table = archive(folder, make_rows(*[50.0] * 40), files=4)
    jobs = InlineJobs()
    rules = ExecutorRules(jobs, 60.0)
    rule_slice = RuleSlice(tuple(RULES), TimeRange(), TimeRange())
    rules.prepare(GROUPS, make_request(file_rows(table), rule_slice))
    return rules, jobs, table, rule_slice


def test_results_of_a_started_job_are_used_once(tmp_path: Path) -> None:
    rules, jobs, table, rule_slice = make_started(tmp_path)
    for task_count in (1, 2):
        outcomes = run_engine(rules, GROUPS, make_request(file_rows(table), rule_slice))
        assert len(event_rows_of(outcomes)) == 40
        assert jobs.task_count == task_count


@pytest.mark.parametrize("changed", ["rules", "rows"])
def test_job_started_for_other_rules_or_rows_is_not_used(tmp_path: Path, changed: str) -> None:
    rules, _, table, rule_slice = make_started(tmp_path)
    groups = RuleGrouper({"s": COLUMNS}).group(RULES[1:]) if changed == "rules" else GROUPS
    low = START_MICROS + 20 * SECOND if changed == "rows" else None
    rows = file_rows(table, low)
    request = make_request(rows, replace(rule_slice, range=rows.time_range))
    assert len(event_rows_of(run_engine(rules, groups, request))) == (
        0 if changed == "rules" else 20
    )


def test_head_start_of_a_job_counts_as_its_time(tmp_path: Path) -> None:
    rules, _, table, rule_slice = make_started(tmp_path)
    for expected in (True, False):
        run_engine(rules, GROUPS, make_request(file_rows(table), rule_slice))
        assert (rules.take_head_start() > 0) == expected


def test_rows_of_filters_are_divided_by_file(tmp_path: Path) -> None:
    """Files that overlap in time are read once each."""
    table = archive(tmp_path, make_rows(*[50.0] * 40), files=4)
    rows = file_rows(table)
    (file, *_) = rows.files
    overlapping = replace(rows, files=[replace(file, rows=900_000)] * 4)
    rule_slice = RuleSlice(tuple(RULES), TimeRange(), TimeRange())
    jobs = InlineJobs()
    outcomes = run_engine(ExecutorRules(jobs, 60.0), GROUPS, make_request(overlapping, rule_slice))
    assert len(event_rows_of(outcomes)) == 40
    assert jobs.task_count >= 4


def test_started_job_that_exceeds_a_limit_is_charged_to_its_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_task, "_run", _fail_constant(90.0, "died"))
    rules, _, table, rule_slice = make_started(tmp_path)
    evaluation = evaluate_groups(GROUPS, make_request(file_rows(table), rule_slice), [rules])
    (failure,) = evaluation.failures
    assert (failure.rule, type(failure.error)) == (RULES[1], TaskLost)
    assert {rule: len(rows) for rule, rows in evaluation.event_rows.items()} == {RULES[0]: 40}


def test_slice_with_a_longer_reach_than_its_rows_is_not_divided(tmp_path: Path) -> None:
    table = archive(tmp_path, make_rows(*[1.0] * 40), files=4)
    event_range = TimeRange(START_MICROS, START_MICROS + 40 * SECOND)
    rule_slice = RuleSlice((WINDOW,), event_range, event_range)
    rows = FileRows(table.files, table.data_files(), event_range)
    assert len(executor_rules.divide_slice(rule_slice, rows, cores=8)) == 1


def test_subquery_of_several_groups_is_computed_once_in_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "(SELECT host, ts, v * 2 AS w FROM s) AS d"
    rules = [
        make_rule("A", f"SELECT host, ts FROM {source} WHERE w > 20", {"host": "string"}),
        make_rule("B", f"SELECT ts, w FROM {source} WHERE host = 'a'", {"w": "double"}),
    ]
    table = archive(tmp_path, make_rows(*[50.0] * 4), files=1)
    groups = RuleGrouper({"s": COLUMNS}).group(rules)
    texts: list[str] = []
    run = part_task._run

    def record(duckdb: Any, statement: PartStatement) -> PartOutcome:
        texts.append(statement.statement.text)
        return run(duckdb, statement)

    monkeypatch.setattr(part_task, "_run", record)
    outcomes = run_engine(ExecutorRules(InlineJobs(), 60.0), groups, make_request(file_rows(table)))
    assert len(groups) == 2
    assert [text for text in texts if "CAST('2'" in text] == texts[:1]
    expected = run_engine(DuckDBRules(), groups, make_request(table_rows(table)))
    assert sort(event_rows_of(outcomes)) == sort(event_rows_of(expected)) != []


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM read_text('/etc/hostname')", "COPY (SELECT 1) TO '{}'", "INSTALL httpfs"],
)
def test_statements_of_rules_have_no_access_to_files(tmp_path: Path, statement: str) -> None:
    duck = DuckDBStatements(NO_EXTERNAL_ACCESS)
    rows = Statement("SELECT n FROM rows", {"rows": pa.table({"n": [1]})})
    assert duck.run(rows).to_pylist() == [{"n": 1}]
    for text in (statement.format(tmp_path / "out"), "SET enable_external_access = true"):
        with pytest.raises(SparkRequired):
            duck.run(Statement(text))


def test_relations_are_sent_with_a_job(tmp_path: Path) -> None:
    table = archive(tmp_path, make_rows(*[50.0] * 4), files=2)
    expr = "SELECT s.ts, h.site FROM s JOIN hosts h ON s.host = h.host"
    tables = Tables({"s": "ts"}, frozenset({"hosts"}))
    definition = Definition(Rule("g", AlertSpec(alert="A", expr=expr)), {"site": "string"}, (), ())
    rule = ActiveRule(definition, tables, infer_shape(expr, tables))
    columns = {"host": "string", "site": "string"}
    groups = RuleGrouper({"s": COLUMNS}, {"hosts": columns}).group([rule])
    rules = ExecutorRules(InlineJobs(), 60.0)
    for site in ("x", "y"):
        validity = [START - timedelta(days=1), START + timedelta(days=1)]
        versions = {"host": ["a"], "site": [site]}
        times = {"_valid_from": validity[:1], "_valid_to": validity[1:]}
        arrays = {name: pa.array(time, ARROW_TYPES["timestamp"]) for name, time in times.items()}
        rules.set_relation("hosts", pa.table({**versions, **arrays}))
        event_rows = event_rows_of(run_engine(rules, groups, make_request(file_rows(table))))
        assert [row.attributes["site"] for _, row in event_rows] == [site] * 4
