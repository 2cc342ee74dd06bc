"""Drains of a workspace whose relation file is being written, or has lost most of its rows; numbers
that are no integers of their column.
"""

import threading
from collections.abc import Iterator

import pytest

from tests.commands import Commands
from tests.faults.harness import workspace
from tests.landing import put_file

WORKSPACE = """
home: .moirae
streams:
  m:
    columns: {ts: timestamp, host: string, n: bigint}
    time: ts
    lateness: 0s
    source: {files: landing/m/*.jsonl}
relations:
  hosts: {columns: {host: string, SITE_ID: string}, key: [host], source: {file: hosts.csv}}
rules: [rules.yaml]
"""
RULES = """
groups:
- name: relations
  rules:
  - alert: Site
    expr: SELECT m.ts, m.host, h.SITE_ID AS site FROM m JOIN hosts h ON m.host = h.host
    id: [host]
  - alert: Unknown
    expr: SELECT m.ts, m.host FROM m LEFT ANTI JOIN hosts h ON m.host = h.host
    id: [host]
"""
OTHER_HOSTS = "".join(f"h{number},rome\n" for number in range(40))


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with workspace(WORKSPACE, RULES) as root, Commands(root) as commands:
        (root / "landing" / "m").mkdir(parents=True)
        yield commands


def _put_events(commands: Commands, hour: int, *numbers: str) -> None:
    lines = [
        f'{{"ts": "2026-01-01T{hour:02d}:00:{second:02d}Z", "host": "beta", "n": {number}}}\n'
        for second, number in enumerate(numbers)
    ]
    put_file(commands.root / "landing" / "m" / f"{hour}.jsonl", "".join(lines))


def _sites(commands: Commands) -> list[tuple[str, str | None]]:
    """By event, in order of time: its rule and the site that it was joined with."""
    events = sorted(commands.exported("events"), key=lambda event: event["ts"])
    return [(event["rule"], event["attributes"].get("site")) for event in events]


@pytest.mark.slow
def test_drain_reads_complete_relations_and_exact_numbers(commands: Commands) -> None:
    file = commands.root / "hosts.csv"
    file.write_bytes(b"\xef\xbb\xbfhost,SITE_ID\r\nbeta,berlin\r\n" + OTHER_HOSTS.encode())
    _put_events(commands, 0, "-9223372036854775809", "9007199254740993.0", "95.5", "1e3")
    commands.output("up", "--drain")
    assert _sites(commands) == [("relations/Site", "berlin")] * 2
    letters = [letter["detail"] for letter in commands.json("dead-letters", "list")]
    assert sorted(letters) == [
        "column n: -9223372036854775809 is out of range for type bigint",
        "column n: 95.5 is not an integer",
    ]

    # In the next drain the file is still being written.
    file.write_text(f"host,SITE_ID\n{OTHER_HOSTS}beta,ber")

    def finish() -> None:
        with file.open("a") as appended:
            appended.write("gen\n")

    writer = threading.Timer(0.5, finish)
    _put_events(commands, 4, "1")
    writer.start()
    commands.output("up", "--drain")
    writer.join()
    assert _sites(commands)[2:] == [("relations/Site", "bergen")]

    # Most rows are lost: the version is held back.
    file.write_text("host,SITE_ID\n")
    _put_events(commands, 8, "1")
    done = commands.run("up", "--drain")
    assert done.returncode == 1
    assert "relation hosts: a version with 0 rows is held back" in done.stderr
    assert _sites(commands)[3:] == [("relations/Site", "bergen")]
    assert "held back" in commands.output("status", code=1)
