"""PostgreSQL crashes and comes back while rows are posted, archived and evaluated, and recalls run.

All processes resume by themselves, acknowledged rows are archived once, and no recall is lost or
counted twice.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.harness import RULES, Stage, workspace
from tests.faults.postgresql import Server, crash
from tests.faults.posting import posted

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
ASKING = f"""{RULES}
  - alert: Asks
    expr: SELECT host, n, ts FROM cpu WHERE cpu > 99.7
    key: [host]
    id: [n]
    keep_firing_for: 1s
    recall: {{norm: {{sql: SELECT count(*) AS n FROM cpu h WHERE h.host = event.host, range: 20s}}}}
"""
# At once, without a word; after its sessions were ended; from without.
ENDS = [signal.SIGQUIT, signal.SIGINT, signal.SIGKILL]
ROLES = {"up", "live", "recall", "server"}

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1500)]


@pytest.fixture
def server() -> Iterator[Server]:
    with workspace("", "") as folder:
        new_server = Server(folder)
        yield new_server
        new_server.stop()


def _count(system: Stage, query: str) -> int:
    row = system.connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _go_on(system: Stage) -> None:
    """Until every process does its part again."""
    parts: dict[str, Callable[[], int]] = {
        "archived": lambda: _count(
            system, "SELECT count(*) FROM units WHERE done AND unit LIKE 'push-%'"
        ),
        "settled": lambda: _count(system, "SELECT count(*) FROM events WHERE settled"),
        "answered": lambda: _count(system, "SELECT count(*) FROM revisions WHERE final"),
    }
    system.wait(lambda: system.alive() >= ROLES, 400)
    for part in parts.values():
        before = part()
        system.wait(lambda part=part, before=before: part() > before, 400)
    print({name: part() for name, part in parts.items()}, flush=True)


@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_processes_resume_after_a_database_outage(server: Server, number: signal.Signals) -> None:
    print(f"seed {SEED}")
    with posted(SEED, ASKING, 100, server.dsn) as (system, producer, _):
        system.up()
        producer.start()
        _go_on(system)
        posts_refused = producer.away
        crash(server.folder, number)
        system.wait(lambda: producer.away > posts_refused, 60)
        away = random.Random(f"{SEED} {number}").uniform(1, 12)
        time.sleep(away)
        server.start()
        print(f"{away:.0f} s away; {producer.away - posts_refused} posts in vain", flush=True)
        system.connect_again(60)
        _go_on(system)
        _check(system)


def test_embedded_server_is_restarted_by_its_users() -> None:
    print(f"seed {SEED}")
    with posted(SEED, ASKING, 100) as (system, producer, _):
        system.up()
        producer.start()
        _go_on(system)
        crash(system.root / ".moirae" / "postgresql", signal.SIGKILL)
        system.connect_again(60)
        _go_on(system)
        _check(system)


def _check(system: Stage) -> None:
    assert system._up is not None
    assert system._up.poll() is None, "the supervisor has ended"
    system.producer.stop()
    system.down()
    system.drain()
    figures = system.check(besides=["load/Asks"])
    assert figures["events"] > 0
    tasks = system.connection.execute(
        "SELECT t.eid, t.state, t.revision, r.final, (r.answer->0->>'n')::int, e.ts, "
        "e.key->>'host', "
        "(SELECT count(*) FROM revisions WHERE task = t.id) FROM tasks t JOIN events e USING (eid) "
        "LEFT JOIN revisions r ON r.task = t.id AND r.number = t.revision"
    ).fetchall()
    rows = [(row["host"], row["ts"]) for row in system.producer.rows]
    for eid, state, revision, final, n, ts, host, revisions in tasks:
        assert (state, final, revision) == ("done", True, revisions), eid
        before = ts.isoformat(timespec="microseconds").replace("+00:00", "Z")
        assert 0 <= n <= sum(one == host and at < before for one, at in rows), (
            "a row is counted twice"
        )
    alerts = system.connection.execute(
        "SELECT eid FROM alerts WHERE rule = 'load/Asks' AND state = 'resolved'"
    )
    assert {row[0] for row in alerts} <= {task[0] for task in tasks}
    print(f"{figures}, {len(tasks)} recalls")
