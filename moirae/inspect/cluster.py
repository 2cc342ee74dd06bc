"""Checks of what a workspace on several machines needs: database, bucket and executors."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import sql
from archiver.errors import ArchiverError
from archiver.spark import (
    ExecutorProbe,
    await_executors,
    compare_environments,
    describe_environment,
    open_session,
    probe_executors,
)
from archiver.storage import (
    ProbeResult,
    Storage,
    as_storage,
    list_contested_names,
    probe_storage,
)
from moirae.config import Settings, build_spark_settings
from moirae.errors import first_line
from moirae.inspect.finding import Finding
from moirae.runtime.storage import open_storage
from sql.workspace import WorkspaceGateway

_EXECUTOR_TIMEOUT = 60.0  # seconds until executors have registered
_MAX_CLOCK_DIFFERENCE = 2.0  # seconds, beyond what a measurement takes


def check_cluster(settings: Settings, connection: sql.Connection) -> list[Finding]:
    """The results of all checks. A task runs on each core of the live process's executors."""
    findings = [_check_locations(settings), _check_database_clock(connection)]
    folder = as_storage(open_storage(settings)) / f".moirae-check-{uuid4().hex}"
    removal_errors: list[str] = []
    try:
        findings += _check_folder(settings, folder)
    finally:
        try:
            folder.remove_all()
        except (ArchiverError, OSError) as error:
            removal_errors.append(f"{folder}: {error}")
    return [*findings, Finding("removal", removal_errors, "what the check has written is removed")]


def _check_folder(settings: Settings, folder: Storage) -> Iterator[Finding]:
    """What this process and executors can do in a folder of the archive."""
    own = probe_storage(folder)
    yield Finding("archive from this process", _list_errors(own), settings.archive)
    probes: Sequence[ExecutorProbe] = ()
    if settings.spark.is_cluster:
        started_at = time.time()
        probes, finding = _probe(settings, folder)
        yield finding
        yield from check_probes(probes, started_at, time.time())
    yield check_contest([own, *(probe.result for probe in probes if probe.result)])


def _check_locations(settings: Settings) -> Finding:
    """What other machines do not reach."""
    problems: list[str] = []
    if not settings.database:
        problems.append("database: the embedded server is reached by this machine alone")
    if not settings.archive.startswith("s3:"):
        problems.append(f"archive: {settings.archive}: each machine must see this folder")
    if settings.landing is None:
        problems.append("landing: batches wait in the home of the machine that accepted them")
    if not settings.spark.is_cluster:
        problems.append(f"spark.master: {settings.spark.master} has no executors elsewhere")
    return Finding("locations", problems, "each part can be on a machine of its own")


def _check_database_clock(connection: sql.Connection) -> Finding:
    before = time.time()
    clock = WorkspaceGateway(connection).get_clock()
    difference = measure_difference(clock, before, time.time())
    problems = []
    if difference > _MAX_CLOCK_DIFFERENCE:
        problems.append(f"the clock of the database differs by {difference:.1f} s from this one")
    return Finding("clock of the database", problems, "agrees with this machine")


def measure_difference(clock: float, before: float, after: float) -> float:
    """Seconds by which a clock differs at least, read between two times of this one."""
    return max(before - clock, clock - after, 0.0)


def _probe(settings: Settings, folder: Storage) -> tuple[list[ExecutorProbe], Finding]:
    name = "executors"
    conf = build_spark_settings(settings, "live")
    cores = settings.spark.cores.live if settings.spark.cores is not None else 1
    warehouse = Path(settings.home) / "warehouse"
    try:
        with open_session("moirae cluster check", warehouse, settings.spark.master, conf) as spark:
            available = await_executors(spark.sparkContext, cores, _EXECUTOR_TIMEOUT)
            if not available:
                return [], Finding(name, [_explain_no_executors(settings)])
            probes = probe_executors(spark.sparkContext, available, partial(probe_storage, folder))
    except (PySparkException, Py4JError) as error:
        return [], Finding(name, [f"{settings.spark.master}: {first_line(error)}"])
    problems = []
    if available < cores:
        problems.append(f"{available} cores of the {cores} of spark.cores.live within a minute")
    executors = {probe.executor for probe in probes}
    return probes, Finding(name, problems, f"{len(executors)} with {available} cores")


def _explain_no_executors(settings: Settings) -> str:
    host = settings.spark.conf.get("spark.driver.host", "the name of this host")
    ports = ", ".join(
        f"{port} {settings.spark.conf.get(port, '(any)')}"
        for port in ("spark.driver.port", "spark.blockManager.port")
    )
    return (
        f"no executor has registered within {_EXECUTOR_TIMEOUT:.0f} s: other applications may have "
        f"all cores, or executors do not reach {host} on the ports {ports}, or their secret is "
        "another one: see the logs of the master and its workers"
    )


def check_probes(probes: Sequence[ExecutorProbe], before: float, after: float) -> Iterator[Finding]:
    """What differs on executors. `before`, `after`: the times of this process around the tasks."""
    if not probes:
        return
    yield Finding(
        "environment of executors",
        _collect_problems(probes, _find_environment_problems),
        ", ".join(sorted({probe.python for probe in probes})),
    )
    yield Finding(
        "archive from executors",
        _collect_problems(probes, lambda probe: _list_errors(probe.result) if probe.result else []),
        "write, read, list",
    )
    yield Finding(
        "clocks of executors",
        _collect_problems(probes, lambda probe: _find_clock_problems(probe, before, after)),
        "agree with this machine",
    )


def _collect_problems(
    probes: Sequence[ExecutorProbe], find: Callable[[ExecutorProbe], Sequence[str]]
) -> list[str]:
    problems = [f"{probe.executor}: {problem}" for probe in probes for problem in find(probe)]
    return list(dict.fromkeys(problems))


def _find_environment_problems(probe: ExecutorProbe) -> list[str]:
    if probe.error and not probe.environment:
        return [f"{probe.python}: {probe.error}: install Moirae there"]
    problems = compare_environments(describe_environment(), probe.environment)
    return [*problems, *([probe.error] if probe.error else [])]


def _find_clock_problems(probe: ExecutorProbe, before: float, after: float) -> list[str]:
    difference = measure_difference(probe.clock, before, after)
    if difference <= _MAX_CLOCK_DIFFERENCE:
        return []
    return [f"its clock differs by {difference:.1f} s at least"]


def _list_errors(result: ProbeResult) -> list[str]:
    return [f"{step}: {error}" for step, error in result.errors.items() if error]


def check_contest(results: Sequence[ProbeResult]) -> Finding:
    """Whether exactly one process has created each object that all have tried to create."""
    winners = Counter(name for result in results for name in result.won)
    problems = [
        f"{winners[name]} processes have created the same object instead of one"
        for name in list_contested_names()
        if winners[name] != 1
    ]
    return Finding(
        "put if absent",
        list(dict.fromkeys(problems)),
        f"one of {len(results)} processes, each time",
    )
