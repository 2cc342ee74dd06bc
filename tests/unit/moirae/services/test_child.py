"""An operation in a child process: its errors are those of the parent."""

import errno
import os
import subprocess
import sys
from typing import Any

import pytest

import sql
from archiver.errors import LogDamaged, StorageFailed
from moirae.errors import MoiraeError, Unreachable
from moirae.services import child
from moirae.services.operations.queries import QueryBody, start

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/b")


def _run_failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an operation whose child fails while it opens the workspace."""

    def fail(_: Any) -> Any:
        raise error

    monkeypatch.setattr(child, "load_settings_from_environment", fail)
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda *_, input, **__: subprocess.CompletedProcess([], 0, child.run_request(input)),
    )
    settings: Any = type("Settings", (), {"file": "moirae.yaml"})
    return child.run_in_child(
        settings, start, {"body": QueryBody(sql="SELECT 1")}, author="ci", idempotency_key=None
    )


@pytest.mark.parametrize(
    ("error", "message", "exit_code"),
    [
        (StorageFailed("the archive s3://b cannot be used: it is away"), "it is away", 75),
        (sql.OperationalError("server closed\n\tunexpectedly"), "PostgreSQL: server closed$", 75),
        (NO_SPACE, "^/a/b: No space left on device$", 1),
        (LogDamaged("cpu: version 3 cannot be parsed"), "^cpu: version 3", 1),
    ],
)
def test_error_of_a_child_is_the_one_of_its_parent(
    error: Exception, message: str, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MoiraeError, match=message) as caught:
        _run_failing(error, monkeypatch)
    assert caught.value.exit_code == exit_code
    assert isinstance(caught.value, Unreachable) == (exit_code == 75)


def test_fault_of_the_program_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        _run_failing(ZeroDivisionError(), monkeypatch)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("raise SystemExit(1)", "failed unexpectedly with exit code 1: see the log of the server"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9, perhaps out of memory"),
    ],
)
def test_child_without_a_response_names_its_end(
    program: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda _, **options: run([sys.executable, "-c", program], **options)
    )
    with pytest.raises(MoiraeError, match=message):
        child._start_child(b"")
