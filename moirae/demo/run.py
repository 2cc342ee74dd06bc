"""`moirae demo`: the simulated testbed played through the real system, two weeks of history, then live."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import orjson
from psycopg import Connection
from rich.console import Console
from rich.progress import Progress

from moirae.config import Settings, load_settings_from_environment
from moirae.demo.report import RULES_BY_KIND, AlertNarrator, DemoReport, compute_summary
from moirae.demo.testbed import STREAMS, SimulatedFailure, Testbed, write_history
from moirae.errors import MoiraeError
from moirae.runtime import connect_database

_HISTORY_LENGTH = timedelta(days=14)
# Of the live phase, by the clock: a look with --once, longer for those who watch.
_SHORT_LIVE_PHASE, _LIVE_PHASE = timedelta(seconds=60), timedelta(minutes=5)
# Seconds between two files of live rows.
_WRITE_INTERVAL = 0.25
# Seconds to watch what is still on its way when the last file is written.
_WATCH_AFTER_END = 4.0
# Seconds until history must be judged, else something is broken.
_HISTORY_TIMEOUT = 600.0


def run_demo(directory: Path, seed: int, once: bool, as_json: bool) -> int:
    """Play the demo in a workspace of its own under `directory`; returns an exit code.

    `once`: a short live phase, then drain and end. `as_json`: standard output holds one JSON object, the summary.
    """
    told = Console(stderr=as_json)
    settings = _create_workspace(directory)
    start = datetime.now(UTC)
    end = start + (_SHORT_LIVE_PHASE if once else _LIVE_PHASE)
    testbed = Testbed(seed, start - _HISTORY_LENGTH, start, end)
    written = _write_history(testbed, directory, told)
    connection = connect_database(settings, "demo")
    with _run_workspace(settings) as process:
        _await_history(connection, process, written, told)
        resolved = _note_resolutions(connection, testbed.failures)
        told.print(
            f"History is judged; {resolved} past alerts carry a note of what fixed them. Now live:\n"
        )
        live_from = datetime.now(UTC)
        shift = live_from - start
        story = AlertNarrator(connection, told, live_from)
        for at, until in _due_intervals(start, end, shift):
            _check_alive(process)
            _write_live(testbed, directory / "landing", at, until, shift)
            story.print_new()
    if once:
        _drain_workspace(settings)
    result = compute_summary(connection, live_from, testbed.failures, shift)
    if as_json:
        sys.stdout.write(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        DemoReport(told).print_result(result, directory)
    return 0


def _create_workspace(directory: Path) -> Settings:
    """A fresh workspace; what an earlier demo left there goes."""
    marker = directory / ".moirae-demo"
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        raise MoiraeError(f"{directory} is not empty and not a demo's; choose another --dir")
    shutil.rmtree(directory, ignore_errors=True)
    with as_file(files("moirae.demo") / "workspace") as template:
        shutil.copytree(template, directory)
    marker.touch()
    return load_settings_from_environment(directory / "moirae.yaml")


def _write_history(testbed: Testbed, directory: Path, told: Console) -> int:
    """Two weeks as files, and the relation; returns how many files."""
    lines = [f"{n.host},{n.site},{n.cores},{n.memory_gb}" for n in testbed.nodes]
    (directory / "hosts.csv").write_text("\n".join(["host,site,cores,memory_gb", *lines]) + "\n")
    told.print(
        f"A testbed of {len(testbed.nodes)} nodes; its last two weeks are written as files …"
    )
    count = 0
    with Progress(console=told, transient=True) as progress:
        task = progress.add_task("writing history", total=len(STREAMS) * (_HISTORY_LENGTH.days + 1))
        for _ in write_history(testbed, directory / "landing"):
            count += 1
            progress.advance(task)
    return count


@contextmanager
def _run_workspace(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "moirae", "up", "--workspace", str(settings.file)]
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def _drain_workspace(settings: Settings) -> None:
    command = [sys.executable, "-m", "moirae", "up", "--drain", "--workspace", str(settings.file)]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        raise MoiraeError("the demo did not come to its end; see the messages above")


def _check_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise MoiraeError("the demo's processes have ended; see the messages above")


def _await_history(
    connection: Connection[Any], process: subprocess.Popen[bytes], written: int, told: Console
) -> None:
    """Until all history files are archived and every rule has been judged over them."""
    deadline = time.monotonic() + _HISTORY_TIMEOUT
    with Progress(console=told, transient=True) as progress:
        task = progress.add_task("archiving and judging history", total=written + 1)
        while time.monotonic() < deadline:
            _check_alive(process)
            row = connection.execute(
                "SELECT (SELECT count(*) FROM units WHERE done), "
                "(SELECT coalesce(bool_and(settled_to IS NOT NULL), false) FROM deployments) AND "
                "EXISTS (SELECT FROM processes WHERE role = 'recall' AND state = 'running')"
            ).fetchone()
            assert row is not None
            progress.update(task, completed=row[0])
            if row[0] >= written and row[1]:
                return
            time.sleep(0.3)
    raise MoiraeError("history was not judged in time; see the messages above")


def _note_resolutions(connection: Connection[Any], failures: tuple[SimulatedFailure, ...]) -> int:
    """What past operators wrote when they had fixed a failure goes to the alert that showed it."""
    count = 0
    for failure in failures:
        if failure.resolution:
            cursor = connection.execute(
                "INSERT INTO alert_notes (alert_id, kind, author, text, tag) "
                "SELECT id, 'resolution', %s, %s, %s FROM alerts WHERE rule = %s AND key->>'host' = %s "
                "AND starts_at >= %s AND starts_at < %s ORDER BY starts_at LIMIT 1",
                (
                    failure.resolved_by,
                    failure.resolution,
                    failure.tag,
                    RULES_BY_KIND[failure.kind],
                    failure.host,
                    failure.starts,
                    failure.ends + timedelta(minutes=15),
                ),
            )
            count += cursor.rowcount
    return count


def _due_intervals(
    at: datetime, end: datetime, shift: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    """Pieces [at, until) of the live phase when their time, moved by `shift`, has come; then some empty ones."""
    while at < end:
        until = min(datetime.now(UTC) - shift, end)
        if until > at:
            yield at, until
            at = until
        time.sleep(_WRITE_INTERVAL)
    for _ in range(int(_WATCH_AFTER_END / _WRITE_INTERVAL)):
        yield end, end
        time.sleep(_WRITE_INTERVAL)


def _write_live(
    testbed: Testbed, landing: Path, at: datetime, until: datetime, shift: timedelta
) -> None:
    """One file a stream; `shift`: loading history has taken so long."""
    for name in STREAMS:
        if rows := testbed.live(name, at, until):
            hidden = landing / name / f".live-{at:%Y%m%dT%H%M%S.%f}.jsonl"
            moved = [
                json.dumps({**row, "ts": _shift_time(str(row["ts"]), shift)}) + "\n" for row in rows
            ]
            hidden.write_text("".join(moved))
            hidden.replace(hidden.with_name(hidden.name[1:]))


def _shift_time(ts: str, shift: timedelta) -> str:
    return (
        (datetime.fromisoformat(ts) + shift)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
