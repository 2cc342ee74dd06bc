"""`moirae rules ci`: what a change of rules means, as Markdown for a merge request."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from moirae.cli.options import DEFAULT_WORKSPACE, WorkspaceOption, format_count, format_time
from moirae.cli.pages import make_query
from moirae.cli.remote import open_services
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, ProblemsError, UsageError
from moirae.runtime import open_progress_bar

if TYPE_CHECKING:
    from moirae.rule_tests import RuleTestResult
    from moirae.services import LocalWorkspace, Workspace
    from moirae.services.operations.backtests import (
        BacktestBody,
        BacktestResult,
        BacktestStatus,
        ChangedAlert,
        ChangedRule,
    )
    from moirae.services.operations.rules import RuleCheck, RuleDocument

_EXIT_FAILED = 1
_MAX_LISTED = 5  # alerts of each kind
_POLL_INTERVAL = 0.5  # seconds
_LOWER_PRIORITY = 10  # added to the niceness: alerts come first


def ci(
    base: Annotated[
        str, typer.Option("--base", metavar="REF", help="Commit or branch before the change.")
    ],
    last: Annotated[
        str,
        typer.Option("--last", metavar="DURATION", help="Which part of the archive is evaluated."),
    ] = "7d",
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Check and test the rules of a git checkout, and show which alerts the change would change.

    The back-test runs at the server (`--server`), over its archive. Prints Markdown. Exit code 1 if a
    rule has an error or a test fails.
    """
    from moirae.services.operations.backtests import BacktestBody
    from moirae.services.operations.rules import RuleFiles, run_check

    settings = load_settings_from_environment(workspace)
    checked = run_check(settings, RuleFiles(files=None), allow_paths=True)
    lines = ["## Change of rules", "", *format_check(checked)]
    has_failed = any(problem.severity == "error" for problem in checked.problems)
    if not has_failed:
        results = run_rule_tests(settings)
        lines += ["", *format_tests(results)]
        has_failed = any(result.failures for result in results)
        files = [_read(path) for path in settings.find_rule_files()]
        body = make_query(BacktestBody, files=files, base=read_base(settings, base), last=last)
        with open_services(workspace) as services:
            changes = evaluate_change(services, body)
        lines += ["", *format_changes(changes)]
    # In the checkout of a reader, files are elsewhere.
    print("\n".join(lines).replace(f"{settings.file.parent}{os.sep}", ""))
    if has_failed:
        raise typer.Exit(_EXIT_FAILED)


def evaluate_change(services: "Workspace", body: "BacktestBody") -> "Sequence[ChangedRule]":
    """What the change does to alerts: computed by the server, or here. Shows progress.

    Raises `MoiraeError`; after Ctrl-C, a server does not go on.
    """
    from moirae.services import LocalWorkspace

    with open_progress_bar(Console(stderr=True)) as bar:
        task = bar.add_task("Back-test", total=1.0)

        def show_progress(share: float) -> None:
            bar.update(task, completed=share)

        if isinstance(services, LocalWorkspace):
            return _evaluate_here(services, body, show_progress)
        return _evaluate_at_server(services, body, show_progress)


def _evaluate_here(
    services: "LocalWorkspace", body: "BacktestBody", show_progress: Callable[[float], None]
) -> "Sequence[ChangedRule]":
    from archiver.spark import session_on_demand
    from moirae.services.backtest_runs import run_backtest

    os.nice(_LOWER_PRIORITY)
    settings = services.settings
    warehouse = Path(settings.home) / "warehouse-backtest"
    with session_on_demand("moirae rules ci", warehouse) as start_spark:
        for progress in run_backtest(settings, services.connection, start_spark, body):
            show_progress(progress.share)
        return _take_rules(progress.describe())  # of the last step, which is always there


def _evaluate_at_server(
    services: "Workspace", body: "BacktestBody", show_progress: Callable[[float], None]
) -> "Sequence[ChangedRule]":
    from moirae.services.operations.backtests import cancel, show, start

    backtest = start(services, body).id
    try:
        while True:
            status = show(services, backtest)
            show_progress(status.progress)
            if status.ended_at is not None:
                break
            time.sleep(_POLL_INTERVAL)
    except KeyboardInterrupt:
        cancel(services, backtest)
        raise
    if status.state != "done":
        raise MoiraeError(f"the back-test {status.state}: {status.error or 'at the server'}")
    return _take_rules(status)


def _take_rules(result: "BacktestResult | BacktestStatus") -> "Sequence[ChangedRule]":
    """The rules of a result. Raises `ProblemsError` if the files have errors there."""
    if any(problem.severity == "error" for problem in result.problems):
        raise ProblemsError(result.problems)
    return result.rules


def read_base(settings: Settings, base: str) -> "list[RuleDocument]":
    """The rule files of the workspace as they are in a commit; files that it lacks are left out.

    Raises `UsageError` for an unknown commit.
    """
    from moirae.services.operations.rules import RuleDocument

    folder = settings.file.parent
    commit = _run_git(folder, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if commit.returncode != 0:
        reason = commit.stderr.strip() or f"no commit or branch {base!r} in {folder}"
        raise UsageError(f"--base: {reason}")
    documents: list[RuleDocument] = []
    for name in _list_base(folder, base, settings.rules):
        shown = _run_git(folder, "show", f"{base}:./{name}")
        if shown.returncode == 0:
            documents.append(RuleDocument(name=str(folder / name), content=shown.stdout))
    return documents


def _list_base(folder: Path, base: str, patterns: Sequence[str]) -> list[str]:
    """The rule files of a commit that have text, relative to the folder; those since deleted, too.

    Patterns of other folders than that of the workspace have none.
    """
    relative = [os.path.relpath(pattern, folder) for pattern in patterns]
    below = [f":(glob){pattern}" for pattern in relative if not pattern.startswith("..")]
    if not below:
        return []
    listed = _run_git(folder, "grep", "-l", "-z", "-e", "", base, "--", *below)
    names = listed.stdout.split("\0")
    return [name.removeprefix(f"{base}:") for name in names if name]


def _run_git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, check=False, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise MoiraeError(f"git cannot be run: {error.strerror or error}") from error


def _read(path: Path) -> "RuleDocument":
    from moirae.services.operations.rules import RuleDocument

    try:
        return RuleDocument(name=str(path), content=path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise MoiraeError(f"{path}: cannot be read: {error}") from error


def run_rule_tests(settings: Settings) -> "list[RuleTestResult]":
    """The results of all tests beside the rule files; none if there are no tests."""
    from archiver.spark import session_on_demand
    from moirae.rule_tests import RuleTestRun, find_test_files, read_test_files

    try:
        documents = read_test_files(settings, find_test_files(settings, []))
    except UsageError:
        return []
    with session_on_demand("moirae rules ci", Path(settings.home) / "warehouse") as start_spark:
        return list(RuleTestRun(settings, start_spark).run(documents))


def format_check(checked: "RuleCheck") -> list[str]:
    """The result of the check as lines of Markdown."""
    lines = [f"**Check**: {format_count(checked.rules, 'rule')} OK"]
    if checked.problems:
        lines = [f"**Check**: {format_count(len(checked.problems), 'problem')}", ""]
        lines += [f"- `{_escape(str(problem))}`" for problem in checked.problems]
    return lines


def format_tests(results: "Sequence[RuleTestResult]") -> list[str]:
    """The results of tests as lines of Markdown."""
    failed = [result for result in results if result.failures]
    lines = [f"**Tests**: {format_count(len(results), 'test')}, {len(failed)} failed"]
    for result in failed:
        lines += ["", f"- {_escape(result.name)}"]
        lines += [
            f"  - `{_escape(f'{failure.place}: {failure.message}')}`" for failure in result.failures
        ]
    return lines


def format_changes(changes: "Sequence[ChangedRule]") -> list[str]:
    """The changes of alerts as lines of Markdown."""
    if not changes:
        return ["**Back-test**: no rule has another version"]
    lines = ["**Back-test**", "", "| rule | alerts | new | gone | moved | unchanged |"]
    lines.append("|---|--:|--:|--:|--:|--:|")
    details: list[str] = []
    for change in changes:
        name = (
            _escape(change.rule) if change.before is not None else f"{_escape(change.rule)} (new)"
        )
        if change.problem is not None:
            lines.append(f"| {name} | {_escape(change.problem)} | | | | |")
            continue
        counts = (change.alerts, change.new, change.gone, change.moved, change.unchanged)
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
        for kind, alerts in (("new", change.listed), ("gone", change.listed_before)):
            selected = [alert for alert in alerts if alert.change == kind][:_MAX_LISTED]
            details += [f"- {kind}: {_format_alert(change, alert)}" for alert in selected]
    return [*lines, "", *details] if details else lines


def _format_alert(change: "ChangedRule", alert: "ChangedAlert") -> str:
    labels = ", ".join(
        f"{name}={value}" for name, value in alert.labels.items() if name != "alertname"
    )
    time = "" if alert.fired_at is None else f" {format_time(alert.fired_at)}"
    return f"{_escape(change.rule)}{time} {_escape(labels)}".rstrip()


def _escape(text: str) -> str:
    """Text that stays in its cell, and means nothing in Markdown."""
    return text.replace("`", "'").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
