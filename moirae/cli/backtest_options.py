"""What `moirae rules backtest`, `tune` and `why` share: the range, the archive, the rules."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

import sql
from moirae.cli.options import format_count, open_workspace
from moirae.config import Settings, parse_duration
from moirae.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from archiver.times import Micros
    from moirae.backtest import Backtest, BacktestArchive
    from moirae.rules import Definition

NO_ROWS = "the archive has no settled rows of its streams in the range"
EXIT_INCOMPLETE = 3

RuleFilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--file",
        metavar="RULES",
        help="Rule file. Default: those of the workspace; repeatable.",
    ),
]

_DEFAULT_LAST = "7d"
_LOWER_PRIORITY = 10  # added to the niceness: alerts come first


@dataclass(frozen=True)
class RangeOptions:
    """Which part of the archive is read."""

    last: Annotated[
        str | None,
        typer.Option(
            "--last",
            metavar="DURATION",
            help="Event time before the newest row. Default: 7d, unless --from is set.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Alerts that start from here on.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only events before this time.")
    ] = None


@dataclass(frozen=True)
class BacktestWorkspace:
    """A workspace whose archive rules are tested over."""

    settings: Settings
    connection: sql.Connection
    start_spark: "Callable[[], SparkSession]"
    archive: "BacktestArchive"

    def load(self, files: Sequence[Path], names: Sequence[str]) -> "list[Definition]":
        """The rules of files. Raises `ProblemsError`, and `UsageError` for unknown names."""
        from moirae.deployments import check_rule_files, select_rule_files

        paths = select_rule_files(self.settings, files)
        definitions, _ = check_rule_files(self.start_spark, self.settings, paths)
        for name in names:
            if not any(name in (rule.name, rule.spec.alert) for rule in definitions):
                rule_names = ", ".join(rule.name for rule in definitions)
                raise UsageError(f"no rule {name!r}; rules are {rule_names}")
        return [
            definition
            for definition in definitions
            if not names or definition.name in names or definition.spec.alert in names
        ]

    def load_one(self, files: Sequence[Path], name: str) -> "Definition":
        """The rule of a name, which reads the archive. Raises `UsageError` if there is none."""
        definitions = self.load(files, [name])
        if len(definitions) > 1:
            names = ", ".join(definition.name for definition in definitions)
            raise UsageError(f"{name!r} names several rules: {names}")
        (definition,) = definitions
        if definition.reads_revisions:
            raise UsageError(
                f"{definition.name} reads streams of recalls or stages, which have no past"
            )
        return definition


@contextmanager
def open_backtest(
    workspace: Path, files: Mapping[str, Sequence[Path]] | None = None
) -> Iterator[BacktestWorkspace]:
    """Open a workspace, with the rows of files by stream in place of its archive if there are any.

    The process has a lower priority from then on.
    """
    from archiver.spark import open_session
    from moirae.backtest import open_archive, open_files
    from moirae.live import Relations
    from recall.statements import WORKER_DAEMON

    with open_workspace(workspace) as (settings, connection):
        os.nice(_LOWER_PRIORITY)
        conf = {"spark.python.daemon.module": WORKER_DAEMON}
        warehouse = Path(settings.home) / "warehouse-backtest"
        with open_session("moirae rules backtest", warehouse, conf=conf) as spark:
            session = spark.newSession()
            with TemporaryDirectory(prefix="moirae-backtest-") as folder:
                if files:
                    relations = Relations(connection, settings.relations)
                    archive = open_files(settings, relations.table, session, files, Path(folder))
                else:
                    archive = open_archive(settings, connection, session)
                yield BacktestWorkspace(settings, connection, lambda: spark, archive)


def parse_inputs(texts: Sequence[str]) -> dict[str, list[Path]]:
    """Files by stream, of options STREAM=FILE. Raises `UsageError`."""
    files: dict[str, list[Path]] = {}
    for text in texts:
        stream, separator, path = text.partition("=")
        if not stream or not separator or not path:
            raise UsageError(f"--input: {text!r} is not STREAM=FILE, such as cpu=cpu.jsonl")
        files.setdefault(stream, []).append(Path(path))
    return files


def parse_range(options: RangeOptions) -> "tuple[Callable[[Micros], Micros], Micros | None]":
    """The start, by the newest row, and the end of the range. Raises `UsageError`."""
    from archiver.times import duration_to_micros

    if options.last is not None and options.since is not None:
        raise UsageError("--last and --from exclude each other")
    end = None if options.until is None else parse_time("--to", options.until)
    if options.since is not None:
        start = parse_time("--from", options.since)
        if end is not None and end <= start:
            raise UsageError("--to must be later than --from")
        return lambda newest: start, end
    try:
        duration = duration_to_micros(parse_duration(options.last or _DEFAULT_LAST))
    except ValueError as error:
        raise UsageError(f"--last: {error}") from error
    return lambda newest: min(newest, end or newest) - duration, end


def parse_time(option: str, text: str) -> "Micros":
    """The time of an option. Raises `UsageError`."""
    from archiver.ingest import parse_iso_time
    from archiver.times import to_micros

    moment = parse_iso_time(text)
    if moment is None:
        raise UsageError(f"{option}: {text!r} is not a time, such as 2026-01-31T12:00Z")
    return to_micros(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def evaluate_with_progress(tests: "Sequence[Backtest]", prefix: str) -> bool:
    """Evaluate tests of one range and show progress; returns False if the user cancelled.

    Raises the error of a single test.
    """
    from archiver.times import from_micros
    from moirae.backtest import evaluate_together

    tested = tests[0].range
    total = max(1, tested.end - tested.start)
    slices = tests[0].evaluate() if len(tests) == 1 else evaluate_together(tests)
    try:
        for time_range in slices:
            assert time_range.start is not None
            share = 100 * (tested.end - time_range.start) // total
            day = from_micros(time_range.start).date()
            events = format_count(sum(len(test.events) for test in tests), "event")
            bar = "#" * (share // 10)
            print(f"{prefix}: [{bar:<10}] {share} %, back to {day}, {events}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{prefix}: cancelled", file=sys.stderr)
        return False
    return True
