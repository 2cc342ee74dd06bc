"""`moirae recalls` cancel, finalize, accelerate and refine: effect on running recalls, and output."""

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from moirae.cli import app
from moirae.cli.options import format_time as moment
from recall.engines.duckdb.engine import LocalEngine
from recall.engines.template import PartialQuery
from tests.integration.history import COUNT, History, history, without_tasks

# Seconds that a query takes: recalls are open while commands are executed.
_SLOW = 0.05


@pytest.fixture(scope="module")
def _history() -> Iterator[History]:
    with history(chunks=60, rows=10) as new_history:
        yield new_history


@pytest.fixture
def past(_history: History, monkeypatch: pytest.MonkeyPatch) -> History:
    real = LocalEngine.compute_partials

    def together(engine: LocalEngine, asks: Sequence[PartialQuery]) -> Any:
        time.sleep(_SLOW)
        return real(engine, asks)

    monkeypatch.setattr(LocalEngine, "compute_partials", together)
    return without_tasks(_history)


@pytest.fixture
def recalling(past: History) -> Iterator[None]:
    """A recall process, as a thread, whose log does not mix with the output of commands."""
    stop = threading.Event()
    with capture_logs(), past.manager() as manager:
        thread = threading.Thread(target=manager.run, args=(stop, lambda _: None))
        thread.start()
        yield
        stop.set()
        thread.join()


def _given(past: History, *arguments: str) -> str:
    command = [*arguments, "--workspace", str(past.settings.file)]
    return CliRunner().invoke(app, command, catch_exceptions=False).stdout


def _count_commands(past: History) -> int:
    row = past.connection.execute("SELECT count(*) FROM commands").fetchone()
    assert row is not None
    return int(row[0])


def _until_answered(past: History, *tasks: Any) -> None:
    deadline = time.monotonic() + 20
    while not all(past.task(task)["revision"] for task in tasks):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_cancel_accepts_a_prefix_of_an_id(past: History, recalling: None) -> None:
    task, other = past.add_task(1), past.add_task(2, f"{COUNT} AND h.v > 1", host=1)
    _until_answered(past, task)
    output = _given(past, "cancel", str(task)[:13])
    assert (
        output.startswith("1 recall cancelled, answers discarded; ") and "chunks not read" in output
    )
    assert past.task(task)["state"] == "cancelled" and past.task(other)["state"] in (
        "waiting",
        "running",
        "done",
    )


def test_finalize_selects_by_rule_and_age(past: History, recalling: None) -> None:
    tasks = [past.add_task(n, f"{COUNT} AND h.v > {n}", rule="g/noisy") for n in range(3)]
    other = past.add_task(9, f"{COUNT} AND h.v > 9", rule="g/quiet")
    _until_answered(past, *tasks, other)
    assert "no matching recall is open" in _given(
        past, "finalize", "--rule", "noisy", "--older-than", "10m"
    )
    output = orjson.loads(_given(past, "finalize", "--rule", "noisy", "-o", "json"))
    assert output["effect"]["recalls"] == 3 and output["effect"]["chunks_left"] > 0
    assert [past.task(task)["state"] for task in tasks] == ["finalized"] * 3
    assert all(past.revisions(task)[-1]["final"] for task in tasks)
    assert past.task(other)["state"] in ("running", "waiting", "done")


def test_recalls_list_accepts_a_prefix_of_the_event_id(past: History) -> None:
    """Also if only recalls of the event are stored."""
    task, _ = past.add_task(1), past.add_task(1 << 120)
    listed = orjson.loads(
        _given(past, "recalls", "list", "--event", str(past.task(task)["eid"])[:8], "-o", "json")
    )
    assert [one["id"] for one in listed] == [str(task)]


def test_finalize_reports_recalls_without_an_answer(past: History) -> None:
    """A background recall keeps its first answer."""
    with capture_logs(), past.manager() as manager:
        answered = past.add_task(1, rule="g/noisy")
        past.connection.execute("UPDATE tasks SET level = 1 WHERE id = %s", (answered,))
        while not past.task(answered)["revision"]:
            manager.run_once()
            manager.wait_for_query()
        assert past.task(answered)["state"] == "running"
        never = past.add_task(2, rule="g/noisy", host=1)
        output = threading.Thread(
            target=lambda: said.append(_given(past, "finalize", "--rule", "noisy"))
        )
        said: list[str] = []
        output.start()
        while not _count_commands(past):  # before the manager has a turn for the second recall
            time.sleep(0.02)
        while output.is_alive():
            manager.run_once()
            manager.wait_for_query()
    assert said[0].startswith("2 recalls finalized, last answers kept (1 had none); ")
    assert [len(past.revisions(task)) > 0 for task in (answered, never)] == [True, False]


def test_accelerate_with_one_key_counts_once(past: History, recalling: None) -> None:
    tasks = [past.add_task(n, f"{COUNT} AND h.v > {n}", host=n % 4) for n in range(1, 5)]
    _until_answered(past, *tasks)
    tickets = past.task(tasks[0])["tickets"]
    output = _given(past, "accelerate", str(tasks[0]), "--key", "k")
    assert "1 recall accelerated, tickets times 10: " in output and "(before: " in output
    assert output == _given(past, "accelerate", str(tasks[0]), "--key", "k")
    assert tickets < past.task(tasks[0])["tickets"] <= 10 * tickets


def test_refine_resumes_a_recall_that_awaits_feedback(past: History, recalling: None) -> None:
    task = past.add_task(1, feedback=0.1)
    deadline = time.monotonic() + 20
    while past.task(task)["state"] != "suspended":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "1 recall resumed: " in _given(past, "refine", "--rule", "g/r")
    before = past.task(task)["next"]
    while past.task(task)["next"] == before and past.task(task)["state"] != "done":
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_recall_that_awaits_feedback_is_listed_with_its_deadline(
    past: History, recalling: None
) -> None:
    task = past.add_task(1, feedback=0.0)
    past.add_task(2, f"{COUNT} AND h.v > 1", host=1)
    end = time.monotonic() + 20
    while past.task(task)["state"] != "suspended":
        assert time.monotonic() < end
        time.sleep(0.02)
    (listed,) = orjson.loads(_given(past, "recalls", "list", "--state", "suspended", "-o", "json"))
    deadline = past.task(task)["deadline"].replace(microsecond=0)
    assert listed["id"] == str(task)
    assert (
        datetime.fromisoformat(listed["deadline"]).replace(microsecond=0)
        == deadline
        > datetime.now(UTC)
    )
    (line,) = [line for line in _given(past, "recalls", "list").splitlines() if str(task) in line]
    assert f"suspended until {moment(deadline)}" in line


def test_command_without_a_recall_process_is_queued(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.cli.recall_control._COMMAND_TIMEOUT", 0.2)
    task = past.add_task(1)
    assert _given(past, "cancel", str(task)) == "Queued: takes effect once a recall process runs.\n"
    assert past.task(task)["state"] == "waiting"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["cancel"], "cancel: nothing selected: give an ID, --rule or --older-than"),
        (["cancel", "--rule", "g/unknown"], "no rule 'g/unknown' is deployed or has recalls"),
        (["finalize", "--older-than", "soon"], "--older-than: "),
        (["refine", "ffffffff-ffff"], "no event or recall with ID 'ffffffff-ffff'"),
        (["recalls", "list", "--rule", "unknown"], "no rule 'unknown' is deployed or has recalls"),
        (["recalls", "list", "--event", "zzzz"], "no event with ID 'zzzz'"),
        (["dead-letters", "list", "--stream", "unknown"], "no stream 'unknown': declared are past"),
        (
            ["dead-letters", "retry", "--stream", "unknown"],
            "no stream 'unknown': declared are past",
        ),
        (["dead-letters", "retry", "99:1"], "no dead letter 99:1: see `moirae dead-letters list`"),
        (
            ["dead-letters", "retry", "99:1", "--all"],
            "IDs cannot be combined with --stream, --reason or --all",
        ),
    ],
)
def test_invalid_selection_is_rejected(past: History, arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(app, [*arguments, "--workspace", str(past.settings.file)])
    assert result.exit_code != 0 and reason in str(result.exception)
    assert past.connection.execute("SELECT count(*) FROM commands").fetchone() == (0,)
