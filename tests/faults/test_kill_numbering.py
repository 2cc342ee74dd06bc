"""A reader sees each event once while settled events are archived, their files compacted and
removed, and the process that does it is killed at any moment.
"""

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from archiver.delta.sequenced_table import EVENTS, SequencedTable
from tests.faults.copies import start_copy
from tests.faults.numbering import RETENTION, main

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


def read(table: SequencedTable) -> int:
    """How many events one version was found to hold, each once; it was seen before it is read, file
    by file.
    """
    last, files, began = table.last_number(), table.data_files(), time.monotonic()
    try:
        counts = Counter(
            int(eid) for file in files for eid in table.read_file(file)["eid"].to_pylist()
        )
    except FileNotFoundError:
        assert time.monotonic() - began > RETENTION, (
            "a file of a version that a reader may still read is gone"
        )
        return 0
    assert max(counts.values(), default=1) == 1, "an event is seen twice"
    assert counts.keys() == set(range(1, last + 1)), "an event is not seen"
    return len(counts)


@pytest.mark.parametrize(
    "kills", [pytest.param(1, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(1200)
def test_reader_sees_each_event_once(kills: int, tmp_path: Path) -> None:
    """In the end there are few files, all of them referenced."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    table, seen = SequencedTable(tmp_path, EVENTS), 0
    for number in range(kills + 1):
        process = start_copy(main, tmp_path)
        try:
            goal = table.last_number() + rng.randrange(20, 800)
            while table.last_number() < goal or (number == kills and not _few(table)):
                assert process.is_alive(), "the archiving process has crashed"
                seen += read(table)
            if number < kills:
                time.sleep(rng.random())
        finally:
            process.kill()
            process.join()
        seen += read(table)
    assert seen > 1000


def _few(table: SequencedTable) -> bool:
    """Whether small files were merged: of the commits' own files, of ten events each, most are
    gone.
    """
    return len(table.data_files()) < table.last_number() / 20
