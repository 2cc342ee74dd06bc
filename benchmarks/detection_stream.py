"""Process starts as a live stream: files at a fixed rate, with one marked row in each."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.live_stream import FILE_INTERVAL, ROWS_PER_FILE, FileProducer
from tests.sigma_collection import Collection, DetectionRule, write_rows

_RANDOM_LENGTH = 12
_MARKED_IMAGE = "C:\\Tools\\marked-process.exe"

MARKER = DetectionRule("Marked", "endswith(lower(Image), 'marked-process.exe')", "low")
"""Matches the marked rows alone."""

Edit = Callable[[list[dict[str, Any]]], None]


class DetectionStream(FileProducer):
    """A thread that writes 500 rows per second, which no rule of the collection matches.

    Each command line has a random end. `edit` changes the rows of each file.
    """

    def __init__(
        self, landing: Path, collection: Collection, edit: Edit = lambda rows: None
    ) -> None:
        matched = {row for _, row in collection.matches}
        rows = enumerate(collection.rows)
        self._rows: Sequence[Any] = [row for number, row in rows if number not in matched]
        self._landing = landing
        self._edit = edit
        self._letters = random.Random(1)
        self._file_number = 0
        super().__init__(self._write_rows)

    def _write_rows(self, now: datetime) -> None:
        first = self._file_number * ROWS_PER_FILE
        rows = [self._make_row(first + i, now, i) for i in range(ROWS_PER_FILE)]
        rows[0]["Image"] = _MARKED_IMAGE
        self._edit(rows)
        path = self._landing / f"{self._file_number:08d}.jsonl"
        write_rows(path, enumerate(rows, first))
        self._file_number += 1

    def _make_row(self, number: int, now: datetime, position: int) -> dict[str, Any]:
        age = timedelta(seconds=FILE_INTERVAL * (1 - (position + 1) / ROWS_PER_FILE))
        end = "".join(self._letters.choices("bcdfghjkmnpqrstvwxz", k=_RANDOM_LENGTH))
        row = dict(self._rows[number % len(self._rows)])
        return row | {
            "ts": (now - age).isoformat(),
            "CommandLine": f"{row.get('CommandLine') or ''} {end}",
        }
