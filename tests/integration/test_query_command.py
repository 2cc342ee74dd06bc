"""`moirae query`: answers in a recall process or in the command, limits, and live rows."""

import csv
import io
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from archiver.read import Reader
from moirae import recall_process
from moirae.cli import app, query, query_output
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import storage
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from recall.summaries import SummaryBuilder, SummaryStore, declared_shape
from tests.integration.history import SCHEMA, History, history, without_tasks

GROUPS = "SELECT host, count(*) AS n, sum(v) AS total FROM past GROUP BY host ORDER BY host"


@pytest.fixture(scope="module")
def archived() -> Iterator[History]:
    with history(chunks=8, rows=20) as past:
        yield past


@pytest.fixture
def past(archived: History) -> History:
    archived.connection.execute("DELETE FROM processes WHERE role LIKE 'recall%'")
    return without_tasks(archived)


@pytest.fixture
def recalling(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[MutableMapping[str, Any]]]:
    """A recall process, as a thread, and its log. The command must not work itself."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a recall process runs")

    monkeypatch.setattr(recall_process, "run_query_task", refuse)
    stop = threading.Event()
    past.connection.execute(
        "INSERT INTO processes (role, epoch, pid, state, beat_at)"
        " VALUES ('recall', 1, 1, 'running', now() + interval '1 hour')"
    )
    with capture_logs() as log, past.manager() as manager:
        thread = threading.Thread(target=manager.run, args=(stop, lambda _: None))
        thread.start()
        yield log
        stop.set()
        thread.join()


def run(past: History, text: str, *options: str) -> Result:
    command = ["query", text, "--workspace", str(past.settings.file), *options]
    with capture_logs():
        return CliRunner().invoke(app, command, catch_exceptions=False)


def expected_groups(past: History) -> list[dict[str, Any]]:
    values: dict[str, list[int]] = {}
    for _, host, v in past.rows:
        values.setdefault(host, []).append(v)
    return [
        {"host": host, "n": len(found), "total": sum(found)}
        for host, found in sorted(values.items())
    ]


def newest(past: History, count: int) -> list[int]:
    """The values of the newest rows, newest first."""
    rows = sorted(past.rows, key=lambda row: row[0], reverse=True)
    return [v for _, _, v in rows[:count]]


def task(past: History) -> tuple[str, str]:
    row = past.connection.execute("SELECT rule, state FROM tasks").fetchone()
    assert row is not None
    return row


def test_command_answers_where_no_recall_process_runs(past: History) -> None:
    result = run(past, GROUPS, "-o", "json")
    answer = orjson.loads(result.stdout)
    assert answer["rows"] == expected_groups(past)
    assert list(answer["rows"][0]) == ["host", "n", "total"]
    assert answer["coverage"]["final"] and not answer["coverage"]["partial"]
    assert result.exit_code == 0
    assert task(past) == ("query", "done")


def test_command_answers_about_alerts(past: History) -> None:
    answer = orjson.loads(run(past, "SELECT count(*) AS n FROM alerts", "-o", "json").stdout)
    assert answer["rows"] == [{"n": 0}]
    assert answer["coverage"]["final"]


def test_command_answers_with_the_most_frequent_values(past: History) -> None:
    answer = orjson.loads(run(past, "SELECT top(host, 1) FROM past", "-o", "json").stdout)
    first = max(expected_groups(past), key=lambda row: (row["n"], [-ord(c) for c in row["host"]]))
    bounds = {"at_least": first["n"], "at_most": first["n"], "certain": True}
    assert answer["rows"] == [{"host": first["host"], **bounds}]
    assert answer["coverage"]["final"]
    with pytest.raises(UsageError, match="between 1 and 100"):
        run(past, "SELECT top(host, 0) FROM past")


def test_command_answers_from_summaries_that_there_are(past: History) -> None:
    """Those that an earlier recall process has computed, of what streams declare."""
    file = past.settings.file
    text = file.read_text()
    declared = "time: ts, summaries: [{key: [host], columns: [v]}]"
    past.connection.execute("UPDATE chunks SET state = 'recent' WHERE to_ts IS NOT NULL")
    root = storage.open_storage(past.settings)
    shape = declared_shape("past", "ts", SCHEMA.query_columns, ("host",), ("v",))
    builder = SummaryBuilder(
        past.connect(),
        root,
        SummaryStore(root, Reader(root, [SCHEMA])),
        list_wanted=lambda: {shape: True},
        history=0.0,
        settle_time=0.0,
    )
    while builder.run_once():
        pass
    try:
        file.write_text(text.replace("time: ts", declared))
        answer = orjson.loads(run(past, GROUPS, "-o", "json").stdout)
    finally:
        file.write_text(text)
    assert answer["rows"] == expected_groups(past)
    assert answer["coverage"]["summarised"] == 8, "all closed chunks"
    assert answer["coverage"]["final"]


def test_recall_process_answers_where_one_runs(
    past: History, recalling: Sequence[Mapping[str, Any]]
) -> None:
    command = ["query", GROUPS, "--workspace", str(past.settings.file), "-o", "json"]
    answer = orjson.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    assert answer["rows"] == expected_groups(past), (answer["coverage"], task(past), recalling)


def test_plain_rows_are_the_newest_ones(past: History) -> None:
    result = run(past, "SELECT ts, host, v FROM past", "--limit", "5", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [int(row["v"]) for row in rows] == newest(past, 5)
    assert list(rows[0]) == ["ts", "host", "v"]
    table = run(past, "SELECT * FROM past", "--limit", "5").stdout
    assert table.splitlines()[0].split() == ["ts", "host", "v"]
    assert f"{newest(past, 1)[0]}" in table.splitlines()[1]


def test_since_limits_history(past: History) -> None:
    result = run(past, "SELECT count(*) AS n FROM past", "--since", "30s", "-o", "json")
    # The newest row is 30 s after the first one that counts.
    assert orjson.loads(result.stdout)["rows"] == [{"n": 30}]


def test_invalid_queries_are_refused_with_their_position(past: History) -> None:
    with pytest.raises(UsageError, match="query:1:"):
        run(past, "SELECT * FROM nothing")
    with pytest.raises(UsageError, match="set a larger --limit"):
        run(past, "SELECT v FROM past LIMIT 1000")
    with pytest.raises(UsageError, match="--for requires --follow"):
        run(past, GROUPS, "--for", "1m")
    with pytest.raises(UsageError, match="--timeout: 'soon' is not a duration"):
        run(past, GROUPS, "--timeout", "soon")
    assert past.connection.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


def test_time_limit_ends_with_the_answer_so_far(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is reached after the first answer, while the next turn is computed."""
    compute, add = LocalEngine.compute_partials, query_output.QueryOutput.add
    has_answer = threading.Event()
    turns = itertools.count()

    def add_and_reach_the_limit(printer: query_output.QueryOutput, answer: Any) -> None:
        add(printer, answer)
        has_answer.set()

    def compute_until_the_end(engine: LocalEngine, queries: Sequence[PartialQuery]) -> Any:
        deadline = time.monotonic() + 60
        while next(turns) and task(past)[1] == "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        return compute(engine, queries)

    monkeypatch.setattr(query_output.QueryOutput, "add", add_and_reach_the_limit)
    monkeypatch.setattr(LocalEngine, "compute_partials", compute_until_the_end)
    clock = SimpleNamespace(monotonic=lambda: 3600.0 * has_answer.is_set(), sleep=time.sleep)
    monkeypatch.setattr(query, "time", clock)
    result = run(past, GROUPS, "--timeout", "2s", "-o", "json")
    coverage = orjson.loads(result.stdout)["coverage"]
    assert coverage["partial"] and coverage["final"] and coverage["left"] > 0
    assert result.exit_code == 3
    assert task(past) == ("query", "finalized")


def test_interrupt_cancels_the_task(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(query_output.QueryOutput, "show_progress", interrupt)
    assert run(past, GROUPS, "-o", "json").exit_code != 0
    assert task(past) == ("query", "cancelled")


def test_cancelled_query_is_an_error(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(printer: query_output.QueryOutput, _: Any) -> None:
        past.connection.execute("UPDATE tasks SET state = 'cancelled', ended_at = now()")

    monkeypatch.setattr(query_output.QueryOutput, "show_progress", cancel)
    with pytest.raises(MoiraeError, match="the query was cancelled"):
        run(past, GROUPS, "-o", "json")


@pytest.fixture
def arriving(past: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows arrive once history is printed."""
    real = query_output.QueryOutput.add
    has_more = iter([True])

    def add(printer: query_output.QueryOutput, answer: Any) -> None:
        real(printer, answer)
        if printer._has_history and next(has_more, False):
            last = max(second for second, _, _ in past.rows)
            past.archive_rows([(last + 1, "new", 501), (last + 2, "new", 502)])

    monkeypatch.setattr(query_output.QueryOutput, "add", add)


@pytest.mark.slow
@pytest.mark.usefixtures("arriving")
def test_aggregates_that_follow_are_revised(past: History) -> None:
    result = run(past, GROUPS, "--follow", "--for", "5s", "-o", "json")
    lines = list(map(orjson.loads, result.stdout.splitlines()))
    assert "new" not in {row["host"] for row in lines[0]["rows"]} or len(past.rows) > 162
    assert lines[-1]["rows"] == expected_groups(past)
    numbers = [line["revision"] for line in lines]
    assert numbers == sorted(set(numbers)) and len(lines) >= 2
    assert task(past) == ("query", "finalized")


@pytest.mark.usefixtures("recalling", "arriving")
def test_plain_rows_that_follow_are_appended(past: History) -> None:
    before = newest(past, 3)
    result = run(past, "SELECT v FROM past", "--limit", "3", "--follow", "--for", "5s", "-o", "csv")
    assert result.stdout.split() == ["v", *map(str, reversed(before)), "501", "502"]


def test_query_without_a_client_is_suspended(past: History) -> None:
    question = "SELECT count(*) AS n FROM past"
    task_id = past.add_task(1, question, rule="query", follow=True, feedback=0.5)
    with past.manager() as manager:
        deadline = time.monotonic() + 30
        while past.task(task_id)["state"] != "suspended" and time.monotonic() < deadline:
            last = max(second for second, _, _ in past.rows)
            past.archive_rows([(last + 1, "later", 1)])
            manager.run_once()
            manager.wait_for_query()
            time.sleep(0.2)
    assert past.task(task_id)["state"] == "suspended"
