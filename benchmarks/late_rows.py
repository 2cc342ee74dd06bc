"""HS6: what new, late and repeated rows cost to ingest, beside the version before identities went.

Late and repeated rows lie in closed chunks, all of them, which are clustered. Processor time of the
process. `python -m benchmarks.late_rows` prints the seconds a million new, late and repeated rows; it
also runs in the earlier installation.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from archiver.chunks import CutPolicy
from archiver.chunks.lifecycle import LifecyclePolicy
from archiver.chunks.maintenance import ChunkMaintenance
from archiver.formats import JSONL
from archiver.ingest import ArchiveWriter
from archiver.ingest.source_units import SourceUnit
from benchmarks.fixtures import HERE, earlier_version, run_benchmark_in, temporary_workspace
from benchmarks.long_history import CHUNK_MICROS, SCHEMA, START, WORKSPACE, draw_json_lines
from benchmarks.recall_load import BASE_COMMIT
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from moirae.config import load_settings_from_environment
from moirae.runtime import database

_REPETITIONS = 3
_CHUNKS = 12
_ROWS_PER_CHUNK = 50_000
_HOSTS = 500
_BATCHES = 6  # of late rows, and of repeated ones
_BATCH_ROWS = 1_200
_NAMES = ("new", "late", "repeated")
_TARGETS = ("≤ 1", "≤ 1.2", "≤ 1.2")


class _Ingest:
    """A writer over chunks of which all but the newest are closed and clustered."""

    def __init__(self, writer: ArchiveWriter, root: Path) -> None:
        self._writer = writer
        self._maintenance = ChunkMaintenance(root, [SCHEMA], 60.0)
        self._units = 0
        self._end = START + _CHUNKS * CHUNK_MICROS

    def seconds(self, lines: Sequence[bytes]) -> float:
        """Processor seconds a million rows to ingest these."""
        self._units += 1
        unit = SourceUnit("past", f"u{self._units}", JSONL, lambda: iter(lines))
        began = time.process_time()
        self._writer.ingest([unit], self._end)
        return (time.process_time() - began) / len(lines) * 1e6

    def maintain(self) -> None:
        """Close and cluster chunks."""
        policy = LifecyclePolicy(1, None, 0.0)
        watermarks = [self._writer.watermark("past")]
        while tasks := self._writer.update_chunk_states(
            policy, self._maintenance.requirements, watermarks, set
        ):
            self._maintenance.submit(tasks)
            self._maintenance.wait()
            self._writer.record_results(self._maintenance.collect_results())

    def stop(self) -> None:
        self._maintenance.stop()


@contextmanager
def _open_ingest() -> Iterator[_Ingest]:
    with temporary_workspace(WORKSPACE) as root:
        settings = load_settings_from_environment(root / "moirae.yaml")
        with database.connect_database(settings, "benchmark") as connection:
            archive = Path(settings.archive)
            policy = CutPolicy(_ROWS_PER_CHUNK, CHUNK_MICROS)
            writer = ArchiveWriter(archive, [SCHEMA], policy, connection, lambda: None)
            ingest = _Ingest(writer, archive)
            try:
                yield ingest
            finally:
                ingest.stop()


def measure() -> list[float]:
    """Processor seconds a million new, late and repeated rows."""
    chunks = [draw_json_lines(chunk, _ROWS_PER_CHUNK, _HOSTS) for chunk in range(_CHUNKS)]
    with _open_ingest() as ingest:
        new = [ingest.seconds(lines) for lines in chunks]
        ingest.maintain()
        late: list[float] = []
        repeated: list[float] = []
        for batch in range(_BATCHES):
            sample: list[bytes] = []
            for lines in chunks[:-2]:
                sample += lines[batch :: _ROWS_PER_CHUNK * (_CHUNKS - 2) // _BATCH_ROWS]
            late.append(ingest.seconds([line.replace(b':"h', b':"l') for line in sample]))
            repeated.append(ingest.seconds(sample))
    # The first of each warms up.
    return [rounded_median(values[1:], 3) for values in (new, late, repeated)]


def run() -> list[BenchmarkResult]:
    """Measure both versions in turns."""
    noise: list[float] = []
    ratios: list[list[float]] = [[], [], []]
    seconds: list[list[float]] = [[], [], []]
    with earlier_version(BASE_COMMIT) as base:
        for _ in range(_REPETITIONS):
            noise.append(time_noise_kernel())
            before, now = _measure_in(base), _measure_in(HERE)
            print(f"HS6 before {before}, now {now}", file=sys.stderr)
            for kind in range(len(_NAMES)):
                ratios[kind].append(now[kind] / before[kind])
                seconds[kind].append(now[kind])
    results: list[BenchmarkResult] = []
    for name, target, values, own in zip(_NAMES, _TARGETS, ratios, seconds, strict=True):
        results.append(
            make_result(
                "HS6",
                f"processor time to ingest {name} rows ÷ that at {BASE_COMMIT}",
                values,
                target=target,
                details={"µs a row": rounded_median(own, 1)},
                noise=noise,
            )
        )
    return results


def _measure_in(folder: Path) -> list[float]:
    return list(map(float, run_benchmark_in(folder, "late_rows")[-1].split()))


if __name__ == "__main__":
    print(*measure())
