"""No error of a thread is lost, and all threads are started where that holds."""

import ast
import threading
from pathlib import Path

import pytest

from archiver import threads
from archiver.threads import set_failure_handler, start_daemon, start_thread

ROOT = Path(__file__).parents[3]
_THREAD = ("threading.Thread", "Thread")


def _fail() -> None:
    raise ValueError("broken")


def test_thread_returns_the_result_of_its_work() -> None:
    future = start_thread(lambda: (threading.current_thread().name, 3), "work")
    assert future.result(10) == ("work", 3)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_error_of_the_work_is_raised_where_it_is_awaited(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        start_thread(fail, "work").result(10)


def test_error_of_a_daemon_is_handed_to_the_handler_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_handle_failure", None)
    failures: list[tuple[str, str]] = []
    set_failure_handler(lambda name, error: failures.append((name, str(error))))
    start_daemon(_fail, "work").join(10)
    assert failures == [("work", "broken")]


def test_error_of_a_daemon_without_handler_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_handle_failure", None)
    printed: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: printed.append(str(args.exc_value)))
    start_daemon(_fail, "work").join(10)
    assert printed == ["broken"]


def test_all_threads_are_started_by_this_module() -> None:
    elsewhere: list[str] = []
    for package in ("archiver", "moirae", "recall", "sql"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path == ROOT / "archiver" / "threads.py":
                continue
            source = path.read_text()
            if "Thread" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in _THREAD:
                    elsewhere.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert elsewhere == [], "use start_daemon or start_thread: their errors are not lost"
