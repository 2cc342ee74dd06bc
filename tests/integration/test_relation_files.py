"""Versions of relation files: in use, held back, accepted; what breaks the reader."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from click.testing import Result
from psycopg import Connection
from typer.testing import CliRunner

from moirae.cli import app
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.inspect.health import list_problems
from moirae.inspect.status import collect_status, find_drain_problems
from moirae.live.relations import Relations
from moirae.runtime import database
from recall.query import sql_names
from tests.waiting import wait_until
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams: {}
relations:
  hosts:
    columns: {host: string, site: string, since: timestamp}
    key: [host]
    source: {file: hosts.csv}
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with workspace(WORKSPACE, "groups: []\n") as root:
        yield load_settings_from_environment(root / "moirae.yaml")


class Hosts:
    """The relation of a workspace, and its file."""

    def __init__(self, settings: Settings, connection: Connection[Any], **changes: Any) -> None:
        self.settings = settings
        self.connection = connection
        self.path = Path(settings.relations["hosts"].source.file)  # type: ignore[union-attr]
        self.declared = settings.relations["hosts"].model_copy(update=changes)
        self.relations: Relations | None = None

    def write(self, rows: int, site: str = "oslo") -> None:
        lines = [f"h{number},{site},2026-01-{number % 28 + 1:02d}" for number in range(rows)]
        new = self.path.with_name("new")
        new.write_text("\n".join(["host,site,since", *lines, ""]))
        new.rename(self.path)

    def start(self) -> None:
        """Begin anew, as a live process does."""
        if self.relations is not None:
            self.relations.stop()
        self.relations = Relations(self.connection, {"hosts": self.declared}, stable_after=0)
        self.relations.forget_undeclared()
        self.reload(START)

    def reload(self, now: datetime = START + timedelta(hours=1)) -> bool:
        """Read what has changed, as the live process does; whether anything had."""
        assert self.relations is not None
        changed = self.relations.changed_relations()
        for name in changed:
            self.relations.refresh(name, now)
        return bool(changed)

    def current(self) -> dict[str, str]:
        assert self.relations is not None
        rows = self.relations.table("hosts").to_pylist()
        return {row["host"]: row["site"] for row in rows if row[sql_names.VALID_TO].year == 9999}

    def status(self) -> dict[str, Any]:
        return collect_status(self.connection, Path(self.settings.archive))


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "tests") as opened:
        opened.execute(
            "TRUNCATE relation_versions, relation_errors, relation_sources, held_relations, set_aside"
        )
        yield opened


@pytest.fixture
def hosts(settings: Settings, connection: Connection[Any]) -> Iterator[Hosts]:
    hosts = Hosts(settings, connection)
    yield hosts
    if hosts.relations is not None:
        hosts.relations.stop()


def _run(hosts: Hosts, *arguments: str) -> Result:
    command = ["relations", *arguments, "--workspace", str(hosts.path.with_name("moirae.yaml"))]
    return CliRunner().invoke(app, command)


def _accept(hosts: Hosts) -> None:
    result = _run(hosts, "accept", "hosts", "-o", "json")
    assert result.exit_code == 0 and json.loads(result.stdout)["accepted"]


def test_commands_show_and_accept_a_version_that_is_held_back(hosts: Hosts) -> None:
    assert "unread" in _run(hosts, "list").stdout
    assert _run(hosts, "accept", "hosts").exception is not None
    hosts.write(40)
    hosts.start()
    hosts.write(4)
    hosts.reload()
    (listed,) = json.loads(_run(hosts, "list", "-o", "json").stdout)
    assert (listed["relation"], listed["state"], listed["rows"]) == ("hosts", "held back", 40)
    assert (listed["held_version"]["rows"], listed["held_version"]["accepted"]) == (4, False)
    assert _run(hosts, "accept", "hosts").stdout == (
        "accepted: relation hosts with 4 rows, used by the live process\n"
    )
    assert "4 rows, accepted" in _run(hosts, "list").stdout
    hosts.reload()
    (listed,) = json.loads(_run(hosts, "list", "-o", "json").stdout)
    assert (listed["state"], listed["rows"], listed["held_version"]) == ("in use", 4, None)


def test_each_version_is_logged_with_its_changes(hosts: Hosts) -> None:
    hosts.write(3)
    with structlog.testing.capture_logs() as logs:
        hosts.start()
        hosts.path.write_text("host,site,since\nh0,oslo,2026-01-01\nh1,rome,\nh9,rome,\n")
        assert hosts.reload()
        hosts.start()
    taken = [log for log in logs if log["action"] == "relation_taken"]
    assert [(log["added"], log["changed"], log["removed"]) for log in taken] == [
        (3, 0, 0),
        (1, 1, 1),
    ]
    assert hosts.current() == {"h0": "oslo", "h1": "rome", "h9": "rome"}


def test_nul_in_a_text_is_stored_as_in_events(hosts: Hosts) -> None:
    for site in ("os\0lo", "ber\0gen"):
        hosts.path.write_text(f"host,site,since\na\0b,{site},2026-01-01\n")
        hosts.start()
        assert hosts.current() == {"a\u2400b": site.replace("\0", "\u2400")}
        assert not hosts.reload()


def test_nan_and_infinity_of_a_column_stay(hosts: Hosts) -> None:
    hosts.declared = hosts.declared.model_copy(
        update={"columns": {"host": "string", "weight": "double"}}
    )
    hosts.path.write_text("host,weight\na,NaN\nb,-inf\nc,1.5\nd,\n")
    hosts.start()
    assert hosts.relations is not None
    assert list(map(str, hosts.relations.table("hosts")["weight"].to_pylist())) == [
        "nan",
        "-inf",
        "1.5",
        "None",
    ]
    assert not hosts.reload()


def test_event_at_the_time_of_the_change_keeps_its_version(hosts: Hosts) -> None:
    hosts.write(1)
    hosts.start()
    hosts.write(1, site="rome")
    change = START + timedelta(hours=1)
    hosts.reload(change)
    assert hosts.relations is not None
    versions = {
        row["site"]: (row[sql_names.VALID_FROM], row[sql_names.VALID_TO])
        for row in hosts.relations.table("hosts").to_pylist()
    }
    assert versions["oslo"][0] <= change < versions["oslo"][1]
    assert versions["rome"][0] == change + timedelta(microseconds=1)


def test_version_with_far_fewer_rows_is_held_back_until_it_is_accepted(hosts: Hosts) -> None:
    hosts.write(40)
    hosts.start()
    hosts.write(19)
    assert hosts.reload()
    assert len(hosts.current()) == 40
    status = hosts.status()
    (problem,) = list_problems(status)
    assert problem == (
        "relation hosts: a version with 19 rows is held back, the one with 40 rows stays in use: "
        "check its source, or run `moirae relations accept hosts`"
    )
    assert find_drain_problems(status) == [problem]
    assert not hosts.reload()
    _accept(hosts)
    assert hosts.reload()
    assert len(hosts.current()) == 19
    assert list_problems(hosts.status()) == []
    assert not hosts.reload()


@pytest.mark.parametrize("accepted", [False, True])
def test_held_version_survives_a_restart(hosts: Hosts, accepted: bool) -> None:
    hosts.write(40)
    hosts.start()
    hosts.write(1)
    hosts.reload()
    held_at = hosts.status()["held_relations"][0]["held_at"]
    if accepted:
        _accept(hosts)
    hosts.start()
    if accepted:
        assert len(hosts.current()) == 1 and hosts.status()["held_relations"] == []
        return
    assert len(hosts.current()) == 40
    assert hosts.status()["held_relations"][0]["held_at"] == held_at
    _accept(hosts)
    assert hosts.reload()
    assert len(hosts.current()) == 1


def test_acceptance_is_for_one_version_only(hosts: Hosts) -> None:
    hosts.write(40)
    hosts.start()
    hosts.write(5)
    hosts.reload()
    _accept(hosts)
    hosts.write(2)
    hosts.start()
    assert len(hosts.current()) == 40
    (held,) = hosts.status()["held_relations"]
    assert (held["rows"], held["accepted"]) == (2, False)


def test_held_version_ends_when_the_file_changes(hosts: Hosts) -> None:
    hosts.write(40)
    hosts.start()
    hosts.write(5)
    hosts.reload()
    hosts.write(39, site="rome")
    hosts.reload()
    assert len(hosts.current()) == 39 and hosts.status()["held_relations"] == []
    hosts.write(5)
    hosts.reload()
    hosts.path.unlink()
    with pytest.raises(MoiraeError, match="does not exist"):
        hosts.reload()
    status = hosts.status()
    assert status["held_relations"] == [] and len(status["relation_errors"]) == 1
    assert len(hosts.current()) == 39


def test_shrinking_may_be_allowed(settings: Settings, connection: Connection[Any]) -> None:
    hosts = Hosts(settings, connection, shrink="allow")
    hosts.write(40)
    hosts.start()
    hosts.write(0)
    hosts.reload()
    assert hosts.current() == {}
    assert hosts.relations is not None
    hosts.relations.stop()


def test_shrinking_counts_rows_of_the_source_if_these_stay_in_use(
    settings: Settings, connection: Connection[Any]
) -> None:
    hosts = Hosts(settings, connection, valid_from="since")
    hosts.write(40)
    hosts.start()
    with structlog.testing.capture_logs() as logs:
        hosts.write(30, site="rome")
        hosts.reload()
        hosts.write(1, site="rome")
        hosts.reload()
    assert [(log["action"], log["rows"]) for log in logs] == [
        ("relation_taken", 30),
        ("relation_held", 1),
    ]
    assert (logs[0]["added"], logs[0]["changed"], logs[0]["removed"]) == (0, 30, 0)
    assert sorted(hosts.current().values()) == ["oslo"] * 10 + ["rome"] * 30
    assert hosts.relations is not None
    hosts.relations.stop()


def _fails(hosts: Hosts) -> bool:
    try:
        hosts.reload()
    except MoiraeError:
        return True
    return False


def test_reader_that_breaks_is_set_aside_and_read_again_on_change(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.write(3)
    hosts.start()
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> None:
            raise RuntimeError("out of cheese")

        patch.setattr("moirae.live.sources.relation_file.parse_rows", fail)
        hosts.write(4)
        with pytest.raises(MoiraeError, match="out of cheese"):
            hosts.reload()
        assert not hosts.reload(), "it is tried again at intervals"
        (failed,) = hosts.status()["retrying"]
        assert (failed["kind"], failed["name"]) == ("relation", "hosts")
        hosts.connection.execute("UPDATE set_aside SET retry_requested = true")
        wait_until(lambda: _fails(hosts), 10)
    assert len(hosts.current()) == 3
    hosts.write(5)
    hosts.reload()
    assert len(hosts.current()) == 5
    assert hosts.status()["retrying"] == []
