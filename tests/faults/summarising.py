"""The process that `test_kill_summaries` kills: rows come late while summaries are computed."""

import random
from pathlib import Path

from tests.property.test_summaries import CHUNK_SECONDS, CHUNKS, SPREAD, Archive


def main(root: Path) -> None:
    archive = Archive(root, None)
    archive.open = CHUNKS
    rng = random.Random()
    if not archive.table.data_files():
        for chunk in range(CHUNKS):
            archive.append(chunk, SPREAD)
    while True:
        archive.build()
        for _ in range(3):
            chunk, second = rng.randrange(CHUNKS), rng.randrange(CHUNK_SECONDS)
            archive.append(chunk, [(second, SPREAD[0][1])])
            if rng.random() < 0.3:
                archive.act(("cluster", rng.randrange(CHUNKS), None))
