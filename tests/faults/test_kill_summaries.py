"""Answers with summaries equal the full recall after the process that computes these was killed."""

import os
import random
import tempfile
import time
from pathlib import Path

import pytest

from archiver.delta import check_files, check_log, list_tables
from tests.faults.copies import start_copy
from tests.faults.summarising import main
from tests.property.test_summaries import CHUNK_SECONDS, CHUNKS, QUERIES, Archive

SEED = int(os.environ.get("MOIRAE_FAULT_SEED", "1"))


@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.slow), pytest.param(50, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(1200)
def test_no_answer_is_stale_after_a_kill(kills: int) -> None:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    summarised = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(kills):
            process = start_copy(main, root)
            time.sleep(3.0 + rng.random() * 2)
            assert process.is_alive(), "the process that computes summaries has crashed"
            process.kill()
            process.join()
            archive = Archive(root, None)
            archive.open = CHUNKS
            for use in (archive.follow, archive.build):
                use()
                for query, sql in enumerate(QUERIES):
                    archive.ask(sql, query * 7, CHUNKS * CHUNK_SECONDS)
            summarised += archive.summarised
            for table in list_tables(root):
                files = check_files(table, {})
                assert not check_log(table.storage).damaged
                assert files is not None and not files.damaged, (table.name, files)
            print(f"kill {number + 1}: {summarised} chunks answered", flush=True)
        assert summarised > 1_000
