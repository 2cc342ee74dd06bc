"""Which source units are read, which wait, and which error is that of a unit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from archiver.errors import DataFileDamaged, LogDamaged, SourceUnreachable, StorageFailed, TaskLost
from archiver.formats import JSONL
from archiver.ingest import SourceUnit
from moirae.errors import RoleLost, Stopped
from moirae.live.set_aside import SetAside
from moirae.live.unit_failures import (
    UnitFailures,
    describe_failure,
    fingerprint,
    is_unit_failure,
    split_units,
)
from sql import OperationalError
from tests.unit.moirae.live.test_set_aside import StoredRows


class Clock:
    """A wall clock that the test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> UnitFailures:
    set_aside = SetAside(StoredRows())  # type: ignore[arg-type]
    ledger: Any = SimpleNamespace(
        list_unfinished=lambda: [SimpleNamespace(stream="a", unit="2")], list_counts=lambda *_: []
    )
    return UnitFailures(set_aside, ledger, lambda _: {"landed"}, clock)


def _unit(stream: str, name: str, path: Path | None = None) -> SourceUnit:
    return SourceUnit(stream, name, JSONL, lambda: iter(()), path=path)


A1, A2, B1 = _unit("a", "1"), _unit("a", "2"), _unit("b", "1")


def _names(units: Any) -> list[str]:
    return [f"{unit.stream}{unit.name}" for unit in units]


def _groups(failures: UnitFailures, *units: SourceUnit) -> list[list[str]]:
    return list(map(_names, failures.plan(units).groups))


def test_units_are_read_together_while_nothing_fails(failures: UnitFailures) -> None:
    assert _groups(failures, A1, A2, B1) == [["a1", "a2", "b1"]]


def test_stream_of_a_failed_unit_waits_for_its_next_try(
    failures: UnitFailures, clock: Clock
) -> None:
    failures.record_failure(A1, ValueError("broken"))
    plan = failures.plan([A1, A2, B1])
    assert list(map(_names, plan.groups)) == [["b1"]]
    assert _names(plan.postponed) == ["a1", "a2"]
    clock.advance(30)
    assert _groups(failures, A1, A2, B1) == [["b1"], ["a1"], ["a2"]]


def test_unit_that_is_set_aside_holds_nothing_back(failures: UnitFailures, clock: Clock) -> None:
    for _ in range(3):
        failures.record_failure(A1, ValueError("broken"))
        clock.advance(30)
    assert failures.is_set_aside(A1)
    plan = failures.plan([A1, A2, B1])
    assert list(map(_names, plan.groups)) == [["a2", "b1"]]
    assert _names(plan.postponed) == ["a1"]


def test_stream_does_not_wait_for_a_failed_unit_that_is_gone(
    failures: UnitFailures, clock: Clock
) -> None:
    failures.record_failure(A1, ValueError("broken"))
    clock.advance(61)
    assert _groups(failures, A2, B1) == [["a2", "b1"]]


def test_changed_file_is_read_at_once(failures: UnitFailures, tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_text("x")
    unit = _unit("a", "1", path)
    failures.record_failure(unit, ValueError("broken"))
    assert _groups(failures, unit) == []
    path.write_text("longer")
    assert _groups(failures, unit) == [["a1"]]


def test_fingerprint_differs_once_a_file_is_replaced_or_gone(tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_text("x")
    unit = _unit("a", "1", path)
    before = fingerprint(unit)
    (tmp_path / "2").write_text("x")
    (tmp_path / "2").replace(path)
    after = fingerprint(unit)
    path.unlink()
    assert len({before, after, fingerprint(unit)}) == 3


def test_file_that_got_permission_is_read_at_once(failures: UnitFailures, tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_text("x")
    unit = _unit("a", "1", path)
    failures.record_failure(unit, SourceUnreachable("permission denied"))
    path.chmod(0o640)
    assert _groups(failures, unit) == [["a1"]]


def test_files_that_cannot_be_opened_are_set_aside_in_the_same_minute(
    failures: UnitFailures, clock: Clock, tmp_path: Path
) -> None:
    units = []
    for name in "123":
        (tmp_path / name).symlink_to("nowhere")
        units.append(_unit("a", name, tmp_path / name))
    (tmp_path / "4").write_text("x")
    good = _unit("a", "4", tmp_path / "4")
    for _ in range(3):
        failures.record_failure(units[0], SourceUnreachable("a link to nothing"))
        failures.record_unopened([*units, good])
        clock.advance(30)
    assert all(map(failures.is_set_aside, units))
    assert _groups(failures, *units, good) == [["a4"]]


def test_failed_files_that_are_gone_are_forgotten(failures: UnitFailures) -> None:
    units = [_unit("a", "1"), _unit("a", "2"), _unit("a", "landed"), _unit("b", "1")]
    for unit in units:
        failures.record_failure(unit, ValueError("broken"))
    failures.forget_missing("a", {"2"})
    assert _groups(failures, _unit("a", "1")) == []  # its stream waits for the others
    failures.forget([_unit("a", "2"), _unit("a", "landed")])
    assert _groups(failures, *units) == [["a1", "a2", "alanded"]]


def test_units_that_the_process_may_have_ended_of_are_read_alone(
    failures: UnitFailures, clock: Clock
) -> None:
    units = [A1, A2, _unit("a", "3"), _unit("a", "4"), B1]
    failures.begin([A2])
    assert not failures.has_failures
    failures.suspect_open_units()
    assert _groups(failures, *units) == [["b1"], ["a1"], ["a2"], ["a3", "a4"]]
    failures.begin([A1])
    assert not failures.has_failures
    for _ in range(3):  # processes, each of which ends
        failures.begin([A2])
        assert _groups(failures, *units) in ([["b1"]], [["a1", "a3", "a4", "b1"]])
        clock.advance(30)
    assert failures.is_set_aside(A2)


def test_records_of_a_topic_are_never_postponed(failures: UnitFailures) -> None:
    records = replace(_unit("a", "2"), partition="0")
    failures.suspect_open_units()
    failures.begin([records])
    assert not failures.has_failures
    failures.record_failure(_unit("a", "1"), ValueError("broken"))
    assert failures.plan([records]) == ([[records]], [])


def test_suspect_that_is_read_is_none_any_more(failures: UnitFailures) -> None:
    failures.suspect_open_units()
    failures.begin([A2])
    failures.record_read([A2])
    assert not failures.has_failures
    assert _groups(failures, A1, A2) == [["a1", "a2"]]


def test_group_is_divided_by_stream_and_then_into_halves() -> None:
    assert list(map(_names, split_units([A1, A2, B1]))) == [["a1", "a2"], ["b1"]]
    assert list(map(_names, split_units([A1, A2]))) == [["a1"], ["a2"]]


@pytest.mark.parametrize(
    ("error", "is_of_unit"),
    [
        (ValueError("x"), True),
        (UnicodeEncodeError("utf-8", "\udce9", 0, 1, "surrogates not allowed"), True),
        (MemoryError(), True),
        (SourceUnreachable("disk fails"), True),
        (TaskLost(), True),
        (OSError(28, "No space left on device"), False),
        (LogDamaged("x"), False),
        (DataFileDamaged("x"), False),
        (StorageFailed("x"), False),
        (OperationalError("x"), False),
        (Stopped(), False),
        (RoleLost("x"), False),
    ],
)
def test_errors_of_the_process_are_not_those_of_a_unit(error: Exception, is_of_unit: bool) -> None:
    assert is_unit_failure(error) is is_of_unit


def test_reason_has_no_trace() -> None:
    text = (
        "An exception was thrown from the Python worker.\n"
        "Traceback (most recent call last):\n"
        '  File "/x/worker.py", line 1, in main\n'
        "    process()\n"
        "KeyError: 'ts'\n\n"
        "\tat org.apache.spark.api.python.Runner(X.scala:1)"
    )
    assert describe_failure(RuntimeError(text)) == "KeyError: 'ts'"
    assert describe_failure(ValueError("broken\nmore")) == "ValueError: broken"
    assert describe_failure(MemoryError()) == "MemoryError"
    assert describe_failure(SourceUnreachable("a: disk fails")) == "a: disk fails"


def test_stream_whose_files_cannot_be_listed_is_set_aside_until_they_can(
    failures: UnitFailures, clock: Clock
) -> None:
    assert not failures.record_listing("a", None)
    for _ in range(2):
        assert not failures.record_listing("a", "landing: permission denied")
        clock.advance(30)
    assert failures.record_listing("a", "landing: permission denied")
    assert failures.record_listing("a", "landing: permission denied")
    assert failures.has_failures
    assert not failures.record_listing("a", None)
    assert not failures.has_failures
