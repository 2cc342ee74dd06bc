"""kill -9 of the live process while streams change: with checkpoints that are damaged meanwhile, and
at each moment of a rename. `tests/integration/test_changing_streams.py` has shorter cases.
"""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.faults.harness import Stage, kill, stage
from tests.landing import put_file

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))
EXTRA = """  {name}:{was}
    columns: {{ts: timestamp, host: string, n: bigint}}
    time: ts
    id: [n]
    source: {{files: landing/extra/*.jsonl}}
"""


def _truncate(checkpoint: Path) -> None:
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _fill_with_garbage(checkpoint: Path) -> None:
    for path in checkpoint.rglob("*"):
        if path.is_file():
            path.write_bytes(os.urandom(100))


DAMAGES: list[Callable[[Path], object]] = [shutil.rmtree, _truncate, _fill_with_garbage]


def _kill_live(system: Stage) -> None:
    system.wait(lambda: kill(system.live()), 240)


@pytest.mark.faults
@pytest.mark.timeout(2400)
def test_rows_are_archived_once_whatever_happens_to_the_checkpoint() -> None:
    rng = random.Random(SEED)
    with stage(SEED) as system:
        system.up()
        system.producer.start()
        for damage in DAMAGES * 2:
            before = system.archived_units()
            system.wait(lambda before=before: system.archived_units() > before, 400)
            time.sleep(rng.uniform(0, 2))
            _kill_live(system)
            damage(system.root / ".moirae" / "checkpoints" / "live")
        before = system.archived_units()
        system.wait(lambda: system.archived_units() > before, 400)
        system.producer.stop()
        system.down()
        system.drain()
        assert system.check()["events"] > 0


def _declare(system: Stage, settings: str, name: str, was: str | None = None) -> None:
    """Declare one more stream."""
    text = EXTRA.format(name=name, was=f"\n    was: {was}" if was else "")
    (system.root / "moirae.yaml").write_text(settings.replace("chunks:", f"{text}chunks:"))


@pytest.mark.faults
@pytest.mark.timeout(2400)
def test_stream_that_is_renamed_again_and_again_has_each_row_once() -> None:
    rng = random.Random(SEED)
    with stage(SEED) as system:
        settings = (system.root / "moirae.yaml").read_text()
        names = ["extra0"]
        for number in range(5):
            _declare(system, settings, names[-1], names[-2] if len(names) > 1 else None)
            path = system.root / "landing" / "extra" / f"{number}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            put_file(path, f'{{"ts": "2026-01-01T00:00:0{number}Z", "host": "h", "n": {number}}}\n')
            if number:
                system.up()
                time.sleep(rng.uniform(1, 6))
                kill(system.live())
                system.down()
            system.drain()
            table = DeltaTable(system.root / ".moirae" / "archive" / "streams" / names[-1])
            rows = table.to_pyarrow_table()
            assert sorted(rows["n"].to_pylist()) == list(range(number + 1))
            names.append(f"extra{number + 1}")
        units = system.connection.execute(
            "SELECT stream, count(*) FROM units GROUP BY stream ORDER BY stream"
        )
        assert units.fetchall() == [("extra4", 5)]
