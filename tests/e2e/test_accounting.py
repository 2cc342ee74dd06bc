"""Ten thousand records, many of them invalid: each is archived, a duplicate or a dead letter."""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moirae.inspect.doctor import run_checks
from tests.faults.harness import Stage, stage

pytestmark = pytest.mark.slow

SEED, RECORDS = 11, 10_000
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Model:
    """Writes the input, and counts on its own what must become of it."""

    rng: random.Random
    files: list[list[bytes]] = field(default_factory=list)
    archived: set[tuple[str, int]] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    late: int = 0

    def write(self) -> None:
        newest = START
        written_rows: list[dict[str, Any]] = []
        number = 0
        for _ in range(10):
            lines: list[bytes] = []
            bound = newest - timedelta(seconds=2) if self.files else START - timedelta(days=1)
            for _ in range(RECORDS // 10):
                number += 1
                kind = self.rng.choices(KINDS, [85, 5, 4, 3, 3])[0] if written_rows else "row"
                self.counts[kind] += 1
                if kind == "row":
                    newest, row = self._row(newest, number)
                    self.archived.add((row["host"], row["n"]))
                    self.late += datetime.fromisoformat(row["ts"]) < bound
                    written_rows.append(row)
                    lines.append(json.dumps(row).encode())
                elif kind == "duplicate":
                    lines.append(
                        json.dumps(dict(reversed(self.rng.choice(written_rows).items()))).encode()
                    )
                elif kind == "conflict":
                    lines.append(
                        json.dumps({**self.rng.choice(written_rows), "cpu": -1.0}).encode()
                    )
                elif kind == "quarantined":
                    ahead = {"ts": "2999-01-01T00:00:00Z", "host": "h1", "n": number, "cpu": 1.0}
                    lines.append(json.dumps(ahead).encode())
                else:
                    lines.append(self.rng.choice(BROKEN))
            self.files.append(lines)

    def _row(self, newest: datetime, number: int) -> tuple[datetime, dict[str, Any]]:
        ts = newest + timedelta(milliseconds=self.rng.randrange(1, 60))
        shown = ts - timedelta(hours=1) if self.rng.random() < 0.05 else ts
        row = {
            "ts": shown.isoformat(),
            "host": f"h{number % 7}",
            "n": number,
            "cpu": self.rng.uniform(0, 100),
        }
        return max(newest, shown), row


KINDS = ("row", "duplicate", "malformed", "conflict", "quarantined")
BROKEN = (
    b'{"ts": "2026-01-01T00:00:00Z", "host":',
    b"[1, 2]",
    b'{"host": "h1", "n": 5}',
    b'{"ts": "yesterday", "host": "h1"}',
    b'{"ts": "2026-01-01T00:00:00Z", "host": "h1", "n": "many"}',
    b"\xff\xfe\x00",
)


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Stage, Model]]:
    with stage(seed=SEED) as system:
        model = Model(random.Random(SEED))
        model.write()
        system.producer.landing.mkdir(parents=True)
        (system.root / "moirae.yaml").write_text(
            (system.root / "moirae.yaml")
            .read_text()
            .replace("*.jsonl}", "*.jsonl*, format: jsonl}")
        )
        for index, lines in enumerate(model.files):
            content = b"\n\n".join(lines)  # blank lines are no records; the last line has no end
            packed = index % 2 == 1
            path = system.producer.landing / f"{index}.jsonl{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
        system.drain()
        yield system, model


def test_every_record_is_accounted_for(filled: tuple[Stage, Model]) -> None:
    system, model = filled
    query = "SELECT sum(read), sum(archived), sum(duplicates), sum(malformed), sum(conflicts), sum(quarantined) FROM units"
    counts = model.counts
    expected = [
        RECORDS,
        *(counts[k] for k in ("row", "duplicate", "malformed", "conflict", "quarantined")),
    ]
    row = system.connection.execute(query).fetchone()
    assert row is not None
    assert [int(value) for value in row] == expected
    late = system.connection.execute("SELECT sum(late)::int FROM units").fetchone()
    assert late == (model.late,)
    assert model.late > 100


def test_doctor_reports_no_problem(filled: tuple[Stage, Model]) -> None:
    system, _ = filled
    findings = run_checks(system.settings, system.connection)
    assert [finding for finding in findings if finding.problems] == []
    assert len(findings) > 5


def test_doctor_reports_damage(filled: tuple[Stage, Model]) -> None:
    system, _ = filled
    system.connection.execute("UPDATE units SET archived = archived + 1 WHERE id = 1")
    system.connection.execute(
        "DELETE FROM dead_letters WHERE (unit_id, line) IN (SELECT unit_id, line FROM "
        "dead_letters LIMIT 1)"
    )
    wrong = [
        finding.check
        for finding in run_checks(system.settings, system.connection)
        if finding.problems
    ]
    system.connection.execute("UPDATE units SET archived = archived - 1 WHERE id = 1")
    assert len(wrong) == 3


def test_dead_letters_have_reason_and_position(filled: tuple[Stage, Model]) -> None:
    system, model = filled
    rows = system.connection.execute(
        "SELECT u.unit, d.line, d.reason, d.raw FROM dead_letters d JOIN units u ON u.id = "
        "d.unit_id"
    ).fetchall()
    assert (
        len(rows)
        >= sum(model.counts[kind] for kind in ("malformed", "conflict", "quarantined")) - 1
    )
    for unit, line, _, raw in rows:
        lines = model.files[int(unit.split("/")[-1].split(".")[0])]
        assert raw == lines[(line - 1) // 2]


def test_row_of_the_year_2999_does_not_advance_the_watermark(filled: tuple[Stage, Model]) -> None:
    system, _ = filled
    newest = system.connection.execute("SELECT newest FROM streams").fetchone()
    assert newest is not None
    assert newest[0].year == 2026
