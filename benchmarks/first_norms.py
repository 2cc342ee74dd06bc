"""AC-2: the first answer of an alert with a recall `normal` ÷ that with a plain norm of seven days alone.

One of 500 hosts over eight days of hourly chunks, 20 million rows. The plain norm is answered by
summaries at once. The other alert has the same norm and `normal: {season: auto}`, which reads the
host's rows. Measured from the claim of the tasks to the commit of the first revision of any of them;
`normal, ms`: to the first revision of the recall `normal`; `final, ms`: to its final one.
"""

import sys
import time
from dataclasses import replace
from uuid import UUID

import psycopg

from benchmarks.long_history import CHUNK_MICROS, NORM, START, ask_history, count_tasks
from benchmarks.results import BenchmarkResult, make_result, rounded_median
from benchmarks.summaries import HOSTS, SummarisedHistory, open_world
from benchmarks.timing import time_noise_kernel
from recall.ledger import Ledger
from recall.norms import MAX_ROWS, NORM_COLUMNS, NormSpec
from recall.requests import RecallEvent, RecallRequest, SqlQuestion

_CHUNKS = 192
_REPETITIONS = 15
_DAY = 24 * CHUNK_MICROS
_PLAIN = replace(ask_history(f"{NORM} WHERE p.host = event.host", attribute="host"), range=7 * _DAY)
_NORMAL = replace(
    ask_history(
        f"SELECT p.v AS value FROM past p WHERE p.host = event.host LIMIT {MAX_ROWS}",
        attribute="host",
    ),
    range=56 * _DAY,
    attributes={"host": "string", "v": "double"},
    columns=dict(NORM_COLUMNS),
    summary="off",
    norm=NormSpec("v", "auto", "UTC", 56 * _DAY, "alerts").to_json(),
)


def run() -> list[BenchmarkResult]:
    """Measure both alerts alternately, each about another host."""
    noise = [time_noise_kernel()]
    seconds: dict[str, list[float]] = {"plain": [], "both": [], "normal": [], "final": []}
    with open_world(_CHUNKS) as world:
        _measure(world, 1, {"norm": _PLAIN, "normal": _NORMAL})  # loads nodes, and warms up
        for number in range(1, _REPETITIONS + 1):
            plain = _measure(world, 2 * number, {"norm": _PLAIN})
            both = _measure(world, 2 * number + 1, {"norm": _PLAIN, "normal": _NORMAL})
            seconds["plain"].append(min(plain["norm"]))
            seconds["both"].append(min(min(times) for times in both.values()))
            seconds["normal"].append(min(both["normal"]))
            seconds["final"].append(max(both["normal"]))
    noise.append(time_noise_kernel())
    details = {
        f"{name}, ms": rounded_median([1_000 * s for s in values], 1)
        for name, values in seconds.items()
    }
    print(f"AC-2 {details}", file=sys.stderr)
    pairs = zip(seconds["both"], seconds["plain"], strict=True)
    return [
        make_result(
            "AC-2",
            "first answer of an alert with a plain norm and `normal` ÷ with the plain norm alone",
            [both / plain for both, plain in pairs],
            target="≤ 1.1",
            details=details,
            noise=noise,
        )
    ]


def _measure(
    world: SummarisedHistory, number: int, questions: dict[str, SqlQuestion]
) -> dict[str, list[float]]:
    """Seconds from the claim to the first and to the last revision of each recall."""
    connection = world.history.connection
    connection.execute("TRUNCATE tasks CASCADE")
    host = f"h{number * 7 % HOSTS}"
    end = START + _CHUNKS * CHUNK_MICROS
    event = RecallEvent(UUID(int=number), end, {}, {"host": host, "v": 0.5})
    requests = [
        RecallRequest(
            "bench/r", "1", name, replace(question, attributes=_NORMAL.attributes), event, 0
        )
        for name, question in questions.items()
    ]
    Ledger(connection).add(requests)
    began = time.monotonic()
    times: dict[str, list[float]] = {name: [] for name in questions}
    revisions = dict.fromkeys(questions, 0)
    while count_tasks(connection, "state NOT IN ('done', 'failed')"):
        world.manager.run_once()
        for name, revision in _list_revisions(connection):
            if revision > revisions[name]:
                revisions[name] = revision
                times[name].append(time.monotonic() - began)
        world.manager.wait_for_query()
    for name, revision in _list_revisions(connection):
        if revision > revisions[name]:
            times[name].append(time.monotonic() - began)
    return times


def _list_revisions(connection: psycopg.Connection[tuple[str, int]]) -> list[tuple[str, int]]:
    return connection.execute("SELECT recall, revision FROM tasks").fetchall()
