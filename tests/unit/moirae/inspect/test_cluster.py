"""What differs on executors."""

from pathlib import Path
from typing import Any

import pytest

from archiver.errors import StorageFailed
from archiver.spark import describe_environment
from archiver.spark.probe import ExecutorProbe
from archiver.storage import LocalStorage
from archiver.storage.probe import ProbeResult, list_contested_names
from moirae.inspect import cluster
from moirae.inspect.cluster import (
    check_cluster,
    check_contest,
    check_probes,
    measure_difference,
)
from moirae.inspect.finding import Finding
from tests.unit.moirae.config.workspace_files import STREAM, load

_NAMES = list_contested_names()


def _probe(executor: str, clock: float = 10.5, **changes: str) -> ExecutorProbe:
    environment = {**describe_environment(), **changes}
    errors = {"write": "StorageFailed: denied" if executor == "denied" else ""}
    return ExecutorProbe(executor, "/python", clock, environment, ProbeResult(errors, []))


def test_equal_executors_have_no_problems() -> None:
    findings = list(check_probes([_probe("a"), _probe("b")], 10, 11))
    assert [finding.problems for finding in findings] == [[], [], []]


def test_each_difference_is_reported_with_its_executor() -> None:
    bare = ExecutorProbe("bare", "/usr/bin/python3", 10.5, error="ModuleNotFoundError: archiver")
    probes = [_probe("old", pyarrow="1"), bare, _probe("denied"), _probe("slow", clock=3.0)]
    problems = [finding.problems for finding in check_probes(probes, 10, 11)]
    assert problems == [
        [
            f"old: pyarrow 1 instead of {describe_environment()['pyarrow']}",
            "bare: /usr/bin/python3: ModuleNotFoundError: archiver: install Moirae there",
        ],
        ["denied: write: StorageFailed: denied"],
        ["slow: its clock differs by 7.0 s at least"],
    ]


def test_clocks_differ_by_what_lies_outside_the_measurement() -> None:
    assert [measure_difference(clock, 10, 12) for clock in (7, 10, 11, 13)] == [3, 0, 0, 1]


def test_each_object_may_be_created_once() -> None:
    halves = [ProbeResult({}, _NAMES[:4]), ProbeResult({}, _NAMES[4:])]
    assert check_contest(halves).problems == []
    assert check_contest([*halves, halves[0]]).problems == [
        "2 processes have created the same object instead of one"
    ]
    assert check_contest(halves[:1]).problems == [
        "0 processes have created the same object instead of one"
    ]


class _RefusedFolder(LocalStorage):
    def __truediv__(self, name: str) -> "_RefusedFolder":
        return _RefusedFolder(self._folder / name)

    def create_log_folder(self) -> None:
        raise StorageFailed("access denied")

    def remove_all(self) -> None:
        raise StorageFailed("access denied")


def test_refused_credentials_are_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _RefusedFolder(tmp_path / "archive")
    monkeypatch.setattr(cluster, "open_storage", lambda _settings: archive)
    monkeypatch.setattr(cluster, "_check_database_clock", lambda _connection: Finding("clock", []))
    connection: Any = None
    findings = check_cluster(load(tmp_path, STREAM), connection)
    problems = {finding.check: finding.problems for finding in findings}
    assert problems["archive from this process"][0] == "write: StorageFailed: access denied"
    (problem,) = problems["removal"]
    assert problem.endswith(": access denied")
