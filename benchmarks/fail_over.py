"""S10: take-over of the live process after kill -9 of its machine's processes ÷ its start.

Two machines share a database and a bucket. Each repetition: rows arrive as an object in the bucket
and by HTTP; all processes of the machine that works are killed at once, and an object is put. The
take-over lasts until the other machine has archived this object. Then that machine is stopped in
order, and an object is put: the start lasts from `moirae up` on the first machine until it has
archived it. Both start with the same archive. At the end all accepted rows are archived once.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from benchmarks.fixtures import temporary_folder
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.timing import time_noise_kernel
from tests import store
from tests.machines import Machine, Machines, machines

_REPETITIONS = 3
_ROWS = 100  # of an object, and of a posted batch
_TIMEOUT = 300.0  # seconds


def run() -> list[BenchmarkResult]:
    """Kill and start machines in turn."""
    takeovers: list[float] = []
    starts: list[float] = []
    noise: list[float] = []
    with temporary_folder() as folder:
        (folder / "store").mkdir()
        with store.serving(folder / "store") as keys, _environment(keys):
            folder.chmod(0o755)
            with machines(folder, f"s3://{store.BUCKET}/S10") as running:
                _start(running, running.one)
                for repetition in range(_REPETITIONS):
                    noise.append(time_noise_kernel())
                    takeovers.append(_time_takeover(running))
                    starts.append(_time_start(running))
                    print(
                        f"{repetition + 1}/{_REPETITIONS} take-over {takeovers[-1]:.1f} s, "
                        f"start {starts[-1]:.1f} s",
                        file=sys.stderr,
                    )
                running.check()
    return [_make_result(takeovers, starts, noise)]


def _time_takeover(running: Machines) -> float:
    """Machine one works; two takes over."""
    running.two.up()
    running.wait(lambda: running.waits(running.two), _TIMEOUT)
    running.put(_ROWS)
    running.wait(lambda: running.post(_ROWS), _TIMEOUT)
    running.one.kill()
    started_at = time.monotonic()
    running.put(_ROWS)
    running.wait_until_archived(_TIMEOUT)
    return time.monotonic() - started_at


def _time_start(running: Machines) -> float:
    """Machine one starts while nothing runs."""
    running.two.down()
    return _start(running, running.one)


def _start(running: Machines, machine: Machine) -> float:
    started_at = time.monotonic()
    machine.up()
    running.put(_ROWS)
    running.wait_until_archived(_TIMEOUT)
    return time.monotonic() - started_at


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _make_result(
    takeovers: list[float], starts: list[float], noise: list[float]
) -> BenchmarkResult:
    ratios = [takeover / start for takeover, start in zip(takeovers, starts, strict=True)]
    return make_result(
        "S10",
        "take-over of live after kill -9 of its machine's processes ÷ its start",
        ratios,
        target="≤ 1.5",
        noise=noise,
        details={
            "takeover_seconds": rounded_median(takeovers, 1),
            "start_seconds": rounded_median(starts, 1),
        },
    )
