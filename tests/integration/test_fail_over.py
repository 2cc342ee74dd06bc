"""A process of another machine waits for a role, and takes it over when its holder fails."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from typer.testing import CliRunner

from archiver.threads import start_thread
from moirae.cli import app
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, RoleLost, RoleTaken, Stopped
from moirae.runtime import database, leases
from moirae.runtime.leases import LeaseRenewal
from moirae.runtime.roles import ReconnectingRole, Role, Standby, list_waiting_processes
from moirae.runtime.shared_values import check_shared_values
from tests.property.world import workspace
from tests.workspaces import write_workspace

_TIMEOUT = 60.0  # seconds


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder).model_copy(update={"database": None})


@pytest.fixture
def connect(settings: Settings) -> Iterator[Callable[[], Connection[Any]]]:
    connections: list[Connection[Any]] = []

    def open_one() -> Connection[Any]:
        connections.append(database.connect_database(settings, "tests"))
        return connections[-1]

    yield open_one
    for connection in connections:
        connection.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases expire after two seconds."""
    monkeypatch.setattr("moirae.runtime.leases._MAX_UNCHANGED", 10)
    monkeypatch.setattr("moirae.runtime.roles.OBSERVATION_INTERVAL", 0.2)
    monkeypatch.setattr(leases, "RENEWAL_INTERVAL", 0.2)


def _on(machine: str, stop: threading.Event | None = None, *, waits: bool = True) -> Standby:
    return Standby(machine, stop or threading.Event(), waits)


def _wait(connect: Callable[[], Connection[Any]], role: str, standby: Standby) -> Future[Role]:
    """Take a role in a thread; returns once it waits."""
    waiting = start_thread(partial(Role, connect(), role, 0.0, standby), role)
    look = connect()
    deadline = time.monotonic() + _TIMEOUT
    while not any(row["role"] == role for row in list_waiting_processes(look)):
        assert not waiting.done(), waiting.result()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return waiting


def test_another_machine_waits_and_takes_over(connect: Callable[[], Connection[Any]]) -> None:
    holder_connection = connect()
    holder = Role(holder_connection, "a", 0.0, _on("one"))
    waiting = _wait(connect, "a", _on("two"))
    time.sleep(1.0)
    assert not waiting.done()
    holder_connection.close()
    successor = waiting.result(_TIMEOUT)
    assert successor.epoch == holder.epoch + 1
    look = connect()
    machine = look.execute("SELECT machine FROM processes WHERE role = 'a'").fetchone()
    assert machine == ("two",)
    assert not list_waiting_processes(look)


@pytest.mark.usefixtures("quick")
def test_holder_that_does_not_renew_its_lease_is_replaced_and_fenced(
    connect: Callable[[], Connection[Any]],
) -> None:
    frozen = Role(connect(), "b", 0.0, _on("one"))
    renewal = LeaseRenewal(connect, "b", frozen.epoch)
    assert renewal._renew()
    successor = _wait(connect, "b", _on("two")).result(_TIMEOUT)
    successor.fence()
    with pytest.raises(RoleLost):  # on another connection: its own was ended
        frozen.reattach(connect())
    assert not renewal._renew()


@pytest.mark.usefixtures("quick")
def test_holder_that_renews_its_lease_keeps_the_role(
    connect: Callable[[], Connection[Any]],
) -> None:
    holder = Role(connect(), "c", 0.0, _on("one"))
    renewal = LeaseRenewal(connect, "c", holder.epoch)
    thread = threading.Thread(target=renewal.run)
    thread.start()
    try:
        stop = threading.Event()
        waiting = _wait(connect, "c", _on("two", stop))
        time.sleep(4.0)  # two leases
        assert not waiting.done()
        holder.fence()
        stop.set()
        with pytest.raises(Stopped):
            waiting.result(_TIMEOUT)
    finally:
        renewal.stop.set()
        thread.join()
    assert not list_waiting_processes(connect())


def test_same_machine_and_a_drain_do_not_wait(connect: Callable[[], Connection[Any]]) -> None:
    holder = Role(connect(), "d", 0.0, _on("one"))
    with pytest.raises(RoleTaken, match="is already running in this workspace"):
        Role(connect(), "d", 0.0, _on("one"))
    with pytest.raises(RoleTaken, match="the d process is already running on one: stop it first"):
        Role(connect(), "d", 0.0, _on("two", waits=False))
    holder.fence()


def test_process_that_waits_survives_the_loss_of_its_connection(
    connect: Callable[[], Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moirae.runtime.roles._RECONNECT_PAUSE", 0.1)
    holder_connection = connect()
    Role(holder_connection, "e", 0.0, _on("one"))
    opened: list[Connection[Any]] = []

    def reconnect() -> Connection[Any]:
        opened.append(connect())
        return opened[-1]

    waiting = start_thread(partial(ReconnectingRole, reconnect, "e", 0.0, _on("two")), "waiting")
    look = connect()
    deadline = time.monotonic() + _TIMEOUT
    while not list_waiting_processes(look):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    look.execute("SELECT pg_terminate_backend(%s)", (opened[0].info.backend_pid,))
    holder_connection.close()
    role = waiting.result(_TIMEOUT)
    assert len(opened) == 2
    role.heartbeat("running")


WORKSPACE = """
home: home
streams:
  cpu: {columns: {ts: timestamp, n: int}, time: ts, id: [n], source: {http: true}}
  log:
    columns: {ts: timestamp, text: string}
    time: ts
    identity: place
    source: {files: %s, tail: true}
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two machines of a workspace that is not running, with files of their own."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    database_line = (
        write_workspace(one, WORKSPACE % "/var/log/one.jsonl").read_text().splitlines()[-1]
    )
    (two / "moirae.yaml").write_text(f"{WORKSPACE % '/var/log/two.jsonl'}{database_line}\n")
    return one, two


def _check_values(folder: Path) -> None:
    settings = load_settings_from_environment(folder / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        check_shared_values(settings, connection)


def _change(folder: Path, old: str, new: str) -> None:
    file = folder / "moirae.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_other_values_are_refused_while_another_machine_runs(folders: tuple[Path, Path]) -> None:
    one, two = folders
    _check_values(one)
    settings = load_settings_from_environment(one / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        Role(connection, "live", 0.0, _on("other:/home")).heartbeat("running")
        _check_values(two)  # files that grow are those of the machine
        _change(two, "n: int}", "n: bigint}")
        with pytest.raises(MoiraeError, match=r"streams\.cpu: other values than on other:/home"):
            _check_values(two)
        _change(two, "streams:", "chunks: {rows: 7}\nstreams:")
        with pytest.raises(MoiraeError, match=r"moirae\.yaml: chunks, streams\.cpu: other values"):
            _check_values(two)
        accepted = CliRunner().invoke(app, ["cluster", "accept", "--workspace", str(two)])
        assert accepted.output == (
            "accepted: chunks, streams.cpu. Restart the processes of other machines\n"
        )
        _check_values(two)
        with pytest.raises(MoiraeError, match=r"chunks, streams\.cpu: other values"):
            _check_values(one)


def test_values_of_a_workspace_that_is_not_running_become_the_reference(
    folders: tuple[Path, Path],
) -> None:
    one, two = folders
    _check_values(one)
    settings = load_settings_from_environment(one / "moirae.yaml")
    with database.connect_database(settings, "tests") as connection:
        Role(connection, "live", 0.0, _on("other:/home")).heartbeat("ended")
    _change(two, "streams:", "chunks: {rows: 7}\nstreams:")
    _check_values(two)
    accepted = CliRunner().invoke(app, ["cluster", "accept", "--workspace", str(two), "-o", "json"])
    assert json.loads(accepted.output) == {"changed": []}


def test_servers_of_several_machines_have_a_role_each(
    connect: Callable[[], Connection[Any]],
) -> None:
    def acquire(machine: str) -> ReconnectingRole:
        return ReconnectingRole.acquire_numbered(connect, "s", 0.0, _on(machine), 2)

    first, second = acquire("one"), acquire("two")
    assert (first.name, second.name) == ("s", "s 2")
    with pytest.raises(RoleTaken, match="2 s processes of this workspace are running"):
        acquire("three")
    for role in (first, second):
        role.heartbeat("running")
        role.connection.close()
    again = acquire("two")  # that of this machine before, though another one is free
    assert again.name == "s 2"
    assert acquire("three").name == "s"
