"""`moirae demo`: the simulated testbed played through the real system, two weeks of history, then
live.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from psycopg import Connection
from rich.console import Console
from rich.progress import Progress

from moirae.alerts import add_note
from moirae.config import Settings, load_settings_from_environment
from moirae.demo.report import RULES_BY_KIND, AlertNarrator, DemoReport, compute_summary
from moirae.demo.testbed import STREAMS, SimulatedFailure, Testbed, write_history
from moirae.errors import MoiraeError
from moirae.runtime import Signals, connect_database, release_database, release_embedded_database

# The exit code of what was interrupted, as shells have it for SIGINT.
_INTERRUPTED = 130
# Seconds for `moirae up` to end its processes, and to stop the database where that is its last
# user.
_UP_TIMEOUT = 40.0
# Seconds between two files of live rows.
_WRITE_INTERVAL = 0.25
# Seconds to watch what is still on its way when the last file is written.
_WATCH_AFTER_END = 4.0
# Seconds until history must be judged, else something is broken.
_HISTORY_TIMEOUT = 600.0


@dataclass(frozen=True)
class Phases:
    """How long the phases of a demo are."""

    history: timedelta = timedelta(days=14)
    """At least one day."""
    live: timedelta = timedelta(minutes=5)
    """By the clock; at least 30 s."""
    live_played: timedelta | None = None
    """How much of the live phase is played; absent: all of it."""


DEFAULT_PHASES = Phases()
ONCE_PHASES = Phases(live=timedelta(seconds=60))


class _Interrupted(MoiraeError):
    """A signal, or the end of the terminal, stops the demo."""


def run_demo(
    directory: Path, seed: int, once: bool, as_json: bool, phases: Phases | None = None
) -> int:
    """Play the demo in a workspace of its own under `directory`; returns an exit code.

    `once`: a short live phase, then drain and end. `as_json`: standard output holds one JSON
    object, the summary. `phases`: other ones than those of the command.
    """
    stop = Signals().stop
    settings = _create_workspace(directory)
    try:
        return _play(
            settings, seed, once, as_json, phases or (ONCE_PHASES if once else DEFAULT_PHASES), stop
        )
    except _Interrupted:
        return _INTERRUPTED
    finally:
        release_database(settings)


def _play(
    settings: Settings, seed: int, once: bool, as_json: bool, phases: Phases, stop: threading.Event
) -> int:
    directory = settings.file.parent
    told = Console(stderr=as_json)
    start = datetime.now(UTC)
    testbed = Testbed(seed, start - phases.history, start, start + phases.live)
    end = start + (phases.live_played or phases.live)
    written = _write_history(testbed, directory, phases.history, told, stop)
    with closing(connect_database(settings, "demo")) as connection:
        live_from, shift = _play_live(
            connection, settings, testbed, (start, end), written, told, stop
        )
        if once:
            _drain_workspace(settings, stop)
        result = compute_summary(connection, live_from, testbed.failures, shift)
    if as_json:
        sys.stdout.write(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        DemoReport(told).print_result(result, directory)
    return 0


def _play_live(
    connection: Connection[Any],
    settings: Settings,
    testbed: Testbed,
    planned: tuple[datetime, datetime],
    written: int,
    told: Console,
    stop: threading.Event,
) -> tuple[datetime, timedelta]:
    """Judge `written` files of history, then play the live phase. Returns when that began, and how
    much later than planned.
    """
    start, end = planned
    with _run_workspace(settings) as process:
        _await_history(connection, process, written, told, stop)
        resolved = _note_resolutions(connection, testbed.failures)
        told.print(
            f"History is judged; {resolved} past alerts carry a note of what fixed them. Now live:\n"
        )
        live_from = datetime.now(UTC)
        shift = live_from - start
        story = AlertNarrator(connection, told, live_from)
        for at, until in _due_intervals(start, end, shift, stop):
            _check_alive(process)
            _write_live(testbed, settings.file.parent / "landing", at, until, shift)
            story.print_new()
    return live_from, shift


def _pause(seconds: float, stop: threading.Event) -> None:
    """Raises `_Interrupted`, which is told once."""
    if stop.wait(seconds):
        print("Interrupted: stopping the demo's processes …", file=sys.stderr, flush=True)
        raise _Interrupted


def _create_workspace(directory: Path) -> Settings:
    """A fresh workspace; what an earlier demo left there goes."""
    marker = directory / ".moirae-demo"
    if directory.exists() and any(directory.iterdir()) and not marker.exists():
        raise MoiraeError(f"{directory} is not empty and not a demo's; choose another --dir")
    if not release_embedded_database(directory / ".moirae"):
        raise MoiraeError(
            f"{directory} is in use by other processes: stop them, or choose another --dir"
        )
    shutil.rmtree(directory, ignore_errors=True)
    with as_file(files("moirae.demo") / "workspace") as template:
        shutil.copytree(template, directory)
    marker.touch()
    return load_settings_from_environment(directory / "moirae.yaml")


def _write_history(
    testbed: Testbed, directory: Path, history: timedelta, told: Console, stop: threading.Event
) -> int:
    """The past as files, and the relation; returns how many files."""
    lines = [f"{n.host},{n.site},{n.cores},{n.memory_gb}" for n in testbed.nodes]
    (directory / "hosts.csv").write_text("\n".join(["host,site,cores,memory_gb", *lines]) + "\n")
    told.print(
        f"A testbed of {len(testbed.nodes)} nodes; its history of {history.days} days is written "
        f"as files …"
    )
    count = 0
    with Progress(console=told, transient=True) as progress:
        task = progress.add_task("writing history", total=len(STREAMS) * (history.days + 1))
        for _ in write_history(testbed, directory / "landing"):
            count += 1
            progress.advance(task)
            _pause(0.0, stop)
    return count


@contextmanager
def _run_workspace(settings: Settings, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`moirae up`, in a session of its own: a Ctrl-C at the terminal is for the demo alone, which
    ends it.
    """
    command = [sys.executable, "-m", "moirae", "up", *options, "--workspace", str(settings.file)]
    process = subprocess.Popen(
        [*command, "--parent", str(os.getpid())], stdout=sys.stderr, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_UP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()  # what it has started ends by itself then
            process.wait()


def _drain_workspace(settings: Settings, stop: threading.Event) -> None:
    with _run_workspace(settings, "--drain") as process:
        while process.poll() is None:
            _pause(0.1, stop)
    if process.returncode != 0:
        raise MoiraeError("the demo did not come to its end; see the messages above")


def _check_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        raise MoiraeError("the demo's processes have ended; see the messages above")


def _await_history(
    connection: Connection[Any],
    process: subprocess.Popen[bytes],
    written: int,
    told: Console,
    stop: threading.Event,
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
            _pause(0.3, stop)
    raise MoiraeError("history was not judged in time; see the messages above")


def _note_resolutions(connection: Connection[Any], failures: tuple[SimulatedFailure, ...]) -> int:
    """Record the resolution of each past failure with the first alert that showed it, as `moirae
    alerts resolve` does.

    Returns the number of resolutions.
    """
    count = 0
    for failure in failures:
        alert_id = _alert_of(connection, failure) if failure.resolution else None
        if alert_id is not None:
            add_note(
                connection,
                alert_id,
                kind="resolution",
                text=failure.resolution,
                author=failure.resolved_by,
                tag=failure.tag,
            )
            count += 1
    return count


def _alert_of(connection: Connection[Any], failure: SimulatedFailure) -> UUID | None:
    """The first alert of a failure, or None where no rule detected it."""
    row = connection.execute(
        "SELECT id FROM alerts WHERE rule = %s AND key->>'host' = %s AND starts_at >= %s AND "
        "starts_at < %s "
        "ORDER BY starts_at LIMIT 1",
        (
            RULES_BY_KIND[failure.kind],
            failure.host,
            failure.starts,
            failure.ends + timedelta(minutes=15),
        ),
    ).fetchone()
    return None if row is None else row[0]


def _due_intervals(
    at: datetime, end: datetime, shift: timedelta, stop: threading.Event
) -> Iterator[tuple[datetime, datetime]]:
    """Pieces [at, until) of the live phase when their time, moved by `shift`, has come; then some
    empty ones.
    """
    while at < end:
        until = min(datetime.now(UTC) - shift, end)
        if until > at:
            yield at, until
            at = until
        _pause(_WRITE_INTERVAL, stop)
    for _ in range(int(_WATCH_AFTER_END / _WRITE_INTERVAL)):
        yield end, end
        _pause(_WRITE_INTERVAL, stop)


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
