"""Past events as shown to operators: alert, duration, recurrence and resolution."""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from moirae.cli import app
from moirae.config.settings import load_settings
from moirae.inspect.past_events import load_answers, load_past_events
from moirae.runtime import database
from tests.workspaces import write_workspace

THEN = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = UUID(int=8)
# The event of which is told; one whose alert has no notes; one that is forgotten; the one
# that asks.
KNOWN, QUIET, GONE, NEW = (UUID(int=number) for number in (1, 2, 3, 4))
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture(scope="module")
def workspace() -> Iterator[tuple[Path, Connection[Any]]]:
    """Two past events with their alerts and what came after them; what was done was said on the
    command line.
    """
    # The database server ends, and writes, a moment after its last connection.
    with tempfile.TemporaryDirectory(prefix="moirae-past-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        root.chmod(0o755)
        file = root / "moirae.yaml"
        write_workspace(file.parent, "home: .moirae\nstreams: {}\n")
        connection = database.connect_database(load_settings(file, {}), "test")
        _event(connection, KNOWN, "n1", THEN + 5 * MINUTE)
        _event(connection, QUIET, "n2", THEN)
        _alert(connection, "first", "n1", THEN, 12 * MINUTE)
        _alert(connection, "quiet", "n2", THEN, None)
        # Not its alert: withdrawn, though it stood at the time.
        _alert(connection, "mistaken", "n1", THEN + 4 * MINUTE, 3 * MINUTE, "withdrawn")
        # It came back twice: what was withdrawn, is of another place or later than a week does not
        # count.
        _alert(connection, "again", "n1", THEN + DAY, MINUTE)
        _alert(connection, "once more", "n1", THEN + 6 * DAY, None, "firing")
        _alert(connection, "withdrawn", "n1", THEN + 2 * DAY, MINUTE, "withdrawn")
        _alert(connection, "elsewhere", "n3", THEN + DAY, MINUTE)
        _alert(connection, "late", "n1", THEN + 8 * DAY, MINUTE)
        _alert(connection, "of another rule", "n1", THEN + DAY, MINUTE, rule="g/other")
        _answer(connection)
        alert = str(uuid5(SPACE, "first"))
        run(file, "alerts", "ack", alert, "mine", "--author", "ada")
        run(file, "alerts", "note", alert, "fan is loud", "--author", "ada")
        run(file, "alerts", "resolve", alert, "cleaned the fan", "--author", "ben")
        run(file, "alerts", "resolve", alert, "new fan", "--author", "ben", "--tag", "fan")
        yield file, connection
        connection.close()


def _event(connection: Connection[Any], eid: UUID, place: str, ts: datetime) -> None:
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)"
        " VALUES (%s, 'g/Hot', '1', %s, %s, %s, '{}', true)",
        (eid, ts, place, Jsonb({"host": place})),
    )


def _alert(
    connection: Connection[Any],
    name: str,
    place: str,
    starts: datetime,
    lasted: timedelta | None,
    state: str = "resolved",
    rule: str = "g/Hot",
) -> None:
    """Its last event is a minute before its end; `lasted` None: it has no end yet."""
    values = {
        "id": uuid5(SPACE, name),
        "rule": rule,
        "place": place,
        "key": Jsonb({"host": place}),
        "annotations": Jsonb({"summary": f"{place} is hot"}),
        "state": state,
        "starts": starts,
        "last": starts + (lasted - MINUTE if lasted else 2 * MINUTE),
        "ends": starts + lasted if lasted else None,
    }
    connection.execute(
        "INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, "
        "state, starts_at, last_at,"
        " ends_at, events) VALUES (%(id)s, %(id)s, %(rule)s, '1', %(place)s, %(key)s, '{}', "
        "%(annotations)s, %(state)s,"
        " %(starts)s, %(last)s, %(ends)s, 1)",
        values,
    )


def _answer(connection: Connection[Any]) -> None:
    reasons: dict[str, Any] = {"shared": [], "only_new": [], "only_past": []}
    hits = [
        {"rank": rank, "past_eid": str(eid), "past_ts": 0, "score": 1 / rank, **reasons}
        for rank, eid in enumerate((KNOWN, QUIET, GONE), start=1)
    ]
    covered = {
        "final": True,
        "partial": False,
        "read": 1,
        "left": 0,
        "failed": 0,
        "read_from": None,
    }
    request = {"kind": "similar", "contexts": ["why"], "k": 3, "measure": "tfidf", "gap": 0}
    task = uuid5(SPACE, "task")
    connection.execute(
        "INSERT INTO tasks (id, eid, rule, version, recall, request, event, state, tickets)"
        " VALUES (%s, %s, 'g/Hot', '1', 'similar', %s, '{}', 'done', 1)",
        (task, NEW, Jsonb(request)),
    )
    connection.execute(
        "INSERT INTO revisions (task, number, final, coverage, answer) VALUES (%s, 1, true, %s, "
        "%s)",
        (task, Jsonb(covered), Jsonb(hits)),
    )
    _event(connection, NEW, "n1", THEN + 30 * DAY)


def run(workspace: Path, *arguments: str) -> str:
    result = CliRunner().invoke(
        app, [*arguments, "--workspace", str(workspace)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def test_past_event_is_shown_with_its_alert_and_resolution(
    workspace: tuple[Path, Connection[Any]],
) -> None:
    past_events = load_past_events(workspace[1], [KNOWN, QUIET, GONE])
    assert past_events.keys() == {KNOWN, QUIET}
    past_event = past_events[KNOWN]
    assert (past_event["alert"], past_event["state"]) == (uuid5(SPACE, "first"), "resolved")
    assert (past_event["starts_at"], past_event["ends_at"]) == (THEN, THEN + 12 * MINUTE)
    assert past_event["again"] == 2
    assert [
        (note["kind"], note["author"], note["text"], note["tag"]) for note in past_event["notes"]
    ] == [
        ("ack", "ada", "mine", None),
        ("note", "ada", "fan is loud", None),
        ("resolution", "ben", "cleaned the fan", None),
        ("resolution", "ben", "new fan", "fan"),
    ]
    quiet = past_events[QUIET]
    assert (quiet["ends_at"], quiet["last_at"]) == (None, THEN + 2 * MINUTE)
    assert (quiet["again"], quiet["notes"]) == (0, [])


def test_similar_hit_shows_notes_and_resolution_of_its_alert(
    workspace: tuple[Path, Connection[Any]],
) -> None:
    """The newest resolution comes first; a hit whose event is deleted is still listed."""
    (answer,) = load_answers(workspace[1], NEW)
    assert answer.hits is not None
    resolved, quiet, gone = answer.hits
    assert ([note["text"] for note in resolved.resolutions], resolved.kind) == (
        ["new fan", "cleaned the fan"],
        "fan",
    )
    assert (quiet.resolutions, quiet.kind) == ([], None)
    assert (gone.past, gone.resolutions, gone.kind) == (None, [], None)
    shown = [line.strip() for line in run(workspace[0], "similar", str(NEW)).splitlines()]
    first, second = (
        next(n for n, line in enumerate(shown) if line.startswith(f"{rank}. ")) for rank in (1, 2)
    )
    assert shown[first].endswith("n1 is hot  lasted 12 min, recurred 2 times within a week")
    assert shown[second].endswith("n2 is hot  lasted 2 min")
    done = [line for line in shown[first + 1 : second] if not line.startswith("shares")]
    assert done == ["acknowledged by ada: mine", "note fan is loud", "resolution new fan [fan]"]
