"""Simulates rows/s of live ingest with 1 to 64 executors of one core, from measured job times.

`python -m benchmarks.cluster_scaling` prints a table. The times are those of docs/howto/cluster.md:
processor seconds of the driver and of the executors for batches of 200,000 and of 1,000,000 rows
(85-byte JSON, 20 plain rules and a join), on a standalone cluster with two tasks a job. Two batch
sizes give what a batch costs and what a row costs.

Each line of the model is an assumption:

1. The live process plans, waits for the job, and commits: driver and executors do not overlap.
2. The driver's time for a batch is constant but for a small part by rows; it does not depend on how
   many executors there are.
3. A batch has one task for each executor. A task has a constant part, which does not shrink, and its
   share of the rows.
4. Tasks differ: factors are log-normal, and the slowest one ends the job.
5. Storage, network and PostgreSQL are as fast as they are with two executors. At a million rows a
   second the input alone is 85 MB a second.
6. Few rows raise alerts; sources bring rows as fast as they are read.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

EXECUTORS = (1, 2, 4, 8, 16, 32, 64)
BATCH_ROWS = (200_000, 1_000_000)
TASK_DEVIATION = 0.1  # of the logarithm of a task's time
MEASURED_ROWS = {1: (103_000, 132_000), 2: (122_000, 216_000)}
"""Rows/s by number of workers, on two cores that driver and workers shared."""
_MEASURED_TASKS = 2
_BATCHES = 200
_SEED = 58


@dataclass(frozen=True)
class Cost:
    """Seconds of a batch, and of each row in it."""

    batch: float
    row: float

    def of(self, rows: float) -> float:
        """Seconds for so many rows."""
        return self.batch + self.row * rows


def fit(first: tuple[int, float], second: tuple[int, float]) -> Cost:
    """The cost that two batches show: their rows, and seconds for a million rows."""
    (rows, per_million), (more_rows, more_per_million) = first, second
    seconds, more_seconds = rows * per_million / 1e6, more_rows * more_per_million / 1e6
    row = (more_seconds - seconds) / (more_rows - rows)
    return Cost(seconds - row * rows, row)


DRIVER = fit((200_000, 2.2), (1_000_000, 0.5))
WORK = fit((200_000, 10.0), (1_000_000, 7.2))
TASK = Cost(WORK.batch / _MEASURED_TASKS, WORK.row)


def simulate(executors: int, batch_rows: int, batches: int = _BATCHES) -> float:
    """Rows a second, over some batches."""
    rng = random.Random(_SEED)
    seconds = 0.0
    for _ in range(batches):
        task = TASK.of(batch_rows / executors)
        slowest = max(rng.lognormvariate(0.0, TASK_DEVIATION) for _ in range(executors))
        seconds += DRIVER.of(batch_rows) + task * slowest
    return batches * batch_rows / seconds


def find_ceiling(batch_rows: int) -> float:
    """Rows a second with executors without end: the driver and the constant part of a task."""
    return batch_rows / (DRIVER.of(batch_rows) + TASK.batch)


def _row(executors: int) -> Sequence[str]:
    rates = [simulate(executors, rows) for rows in BATCH_ROWS]
    measured = MEASURED_ROWS.get(executors)
    span = "" if measured is None else f"{measured[0]:,} to {measured[1]:,}"
    return [str(executors), *(f"{_round(rate):,}" for rate in rates), span]


def _round(rate: float) -> int:
    """Two digits: no figure here is known better."""
    size = 10 ** (math.floor(math.log10(rate)) - 1)
    return int(round(rate / size) * size)


def main() -> None:
    """Print the table, in Markdown."""
    print("| executors | batches of 200,000 rows | batches of 1,000,000 rows | measured |")
    print("|---|---|---|---|")
    for executors in EXECUTORS:
        print("| " + " | ".join(_row(executors)) + " |")
    ceilings = [f"{_round(find_ceiling(rows)):,}" for rows in BATCH_ROWS]
    print(f"| without end | {ceilings[0]} | {ceilings[1]} | |")
    ratio = simulate(2, 200_000) / simulate(1, 200_000)
    print(f"two executors ÷ one, batches of 200,000: {ratio:.2f}")


if __name__ == "__main__":
    main()
