"""Recalls name streams as they were when they were requested: also after these are renamed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from archiver.delta import ColumnRewrite, StreamTable
from archiver.threads import start_thread
from moirae.config import Settings, load_settings_from_environment, stream_schema
from moirae.inspect.repeat import repeat_last_answers
from moirae.live.stream_renames import rename_streams
from moirae.recall_process import run_query_task
from moirae.runtime.storage import open_storage
from tests.integration.history import COUNT, History, history, run_until

ROWS = 100


@pytest.fixture
def past() -> Iterator[History]:
    with history(3, ROWS) as new_history:
        yield new_history


def _redeclare(past: History, old: str, new: str) -> Settings:
    """Change the workspace file, and rename streams as a live process does at its start."""
    file = past.settings.file
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    settings = load_settings_from_environment(file)
    with past.connect() as connection:
        rename_streams(settings, connection, open_storage(settings))
    return settings


def _rename(past: History, old: str, new: str, was: str | None = None) -> Settings:
    previous = "" if was is None else f"was: {was}, "
    return _redeclare(past, f"  {old}: {{{previous}", f"  {new}: {{was: {old}, ")


@contextmanager
def _recall_process(past: History, settings: Settings, task: UUID) -> Iterator[None]:
    """Works on one task, wired as a recall process is."""
    stop = threading.Event()
    with past.connect() as connection:
        ended = start_thread(lambda: run_query_task(settings, connection, task, stop), "recall")
        try:
            yield
        finally:
            stop.set()
            ended.result(60)


def _finish(past: History, settings: Settings, task: UUID) -> dict[str, Any]:
    with _recall_process(past, settings, task):
        deadline = time.monotonic() + 60
        while past.task(task)["state"] not in ("done", "failed"):
            assert time.monotonic() < deadline, past.task(task)
            time.sleep(0.1)
    return past.task(task)


def _repeat(past: History, settings: Settings, task: UUID) -> tuple[bool | None, str | None]:
    with past.connect() as connection:
        (answer,) = repeat_last_answers(settings, connection, task)
    return answer.equal, answer.why


def test_open_recall_goes_on_and_answers_can_be_repeated(past: History) -> None:
    done, begun, later = (past.add_task(number) for number in range(1, 4))
    with past.manager() as manager:
        run_until(
            manager, lambda: past.task(done)["state"] == "done" and past.task(begun)["next"] > 0
        )
    settings = _rename(past, "past", "present")
    assert not (Path(settings.archive) / "streams" / "past").exists()
    for task in (begun, later):
        assert _finish(past, settings, task)["state"] == "done"
        assert past.revisions(task)[-1]["answer"] == [past.expected_answer()]
    # Renamed once more, and back.
    settings = _rename(past, "present", "third", was="past")
    assert _repeat(past, settings, done) == (True, None)
    settings = _rename(past, "third", "past", was="present")
    for task in (done, begun, later):
        assert _repeat(past, settings, task) == (True, None)


def test_answers_can_be_repeated_over_rewritten_files(past: History) -> None:
    """Those that read a column by a name that it has no longer cannot: that is said."""
    groups = "SELECT h.host AS host, avg(h.v) AS mean, max(h.v) AS n FROM past h GROUP BY h.host"
    tasks = [past.add_task(number, sql) for number, sql in enumerate((COUNT, groups), start=1)]
    with past.manager() as manager:
        run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
    before = _paths(past.settings)
    settings = _redeclare(past, "v: bigint", "v: double")
    _rewrite(settings)
    assert _paths(settings).isdisjoint(before)
    past.archive_rows([(7, "h0", 1)])
    for task in tasks:
        assert _repeat(past, settings, task) == (True, None)
    settings = _redeclare(past, "v: double", "w: {type: double, was: v}")
    _rewrite(settings)
    equal, reason = _repeat(past, settings, tasks[0])
    assert equal is None
    assert reason is not None
    assert reason.startswith("this version cannot run the stored query: unknown column 'h.v'")


def _rewrite(settings: Settings) -> None:
    schema = stream_schema("past", settings.streams["past"])
    ColumnRewrite(StreamTable(open_storage(settings), schema)).run(lambda _: None)


def _paths(settings: Settings) -> set[str]:
    schema = stream_schema("past", settings.streams["past"])
    return set(StreamTable(open_storage(settings), schema).local_paths())
