"""`moirae rules test`: run tests of rules."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    format_count,
    print_json,
)
from moirae.config import load_settings_from_environment
from moirae.errors import MoiraeError, UsageError

if TYPE_CHECKING:
    from moirae.rule_tests import RuleTestResult

_EXIT_FAILED = 1


def run_tests(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Files of tests, or folders with them. Default: tests/*.yaml beside rule files.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="REGEX", help="Only tests whose name matches."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Write the results as XML of JUnit, too."),
    ] = None,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            help="Show of which rules, stages and conditions no test expects anything.",
        ),
    ] = False,
    minimum: Annotated[
        int | None,
        typer.Option(
            "--min",
            min=0,
            max=100,
            metavar="PERCENT",
            help="Fail if tests cover fewer of the rules, stages and conditions.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Run tests of rules: rows in; alerts, events, answers, stages and messages out.

    Exit code 0 if all pass, 1 if any fails.
    """
    from archiver.spark import session_on_demand
    from moirae.rule_tests import RuleTestRun, find_test_files, format_junit, read_test_files

    pattern = _compile(run)
    settings = load_settings_from_environment(workspace)
    documents = read_test_files(settings, find_test_files(settings, paths or []))
    results: list[RuleTestResult] = []
    with session_on_demand("moirae rules test", Path(settings.home) / "warehouse") as start_spark:
        test_run = RuleTestRun(settings, start_spark, pattern)
        for result in test_run.run(documents):
            results.append(result)
            if output is OutputFormat.TABLE:
                _print_result(result)
    if junit is not None:
        _write(junit, format_junit(results))
    if not results:
        raise UsageError(f"--run: no test matches {run!r}")
    failed = sum(bool(result.failures) for result in results)
    covered = test_run.measure_coverage()
    is_too_low = minimum is not None and covered.percent < minimum
    if output is OutputFormat.JSON:
        untested = {"percent": covered.percent, "untested": list(map(str, covered.missing))}
        print_json({"tests": list(map(asdict, results)), "failed": failed, "coverage": untested})
    else:
        print(f"{format_count(len(results), 'test')}, {failed} failed")
        if coverage or is_too_low:
            print(f"tests cover {covered.percent} % of the rules, stages and conditions")
            for item in covered.missing:
                print(f"not tested: {item}")
    if failed or is_too_low:
        raise typer.Exit(_EXIT_FAILED)


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--run: not a regular expression: {error}") from error


def _print_result(result: "RuleTestResult") -> None:
    word = "FAIL" if result.failures else "ok"
    print(f"{word:4}  {result.file}:{result.line}  {escape_control(result.name)}")
    for failure in result.failures:
        print(f"      {failure.place}: {escape_control(failure.message)}")
        for line in failure.lines:
            print(f"        {escape_control(line)}")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MoiraeError(f"{path}: cannot be written: {error.strerror or error}") from error
