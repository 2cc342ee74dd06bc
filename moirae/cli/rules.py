"""`moirae rules`: check, apply and inspect rules."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.backtest import backtest
from moirae.cli.import_sigma import import_sigma
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    format_count,
    print_json,
    print_table,
    print_warnings,
    print_yaml,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import RemoteTyper, open_remote, open_services, uses_server
from moirae.cli.rule_ci import ci
from moirae.cli.rule_history import find_history_lints
from moirae.cli.rule_report import report
from moirae.cli.rule_tests import run_tests
from moirae.cli.tune import tune
from moirae.cli.why import why
from moirae.config import format_duration, load_settings_from_environment
from moirae.errors import MoiraeError, Problem, UsageError

if TYPE_CHECKING:
    from moirae.services.operations.rules import (
        AppliedRule,
        RuleCheck,
        RuleFiles,
        RuleStep,
    )

app = RemoteTyper(help="Check, apply and inspect rules.", no_args_is_help=True)
# Only here: it writes rule files, which a server does not.
typer.Typer.command(app, "import-sigma")(import_sigma)
# Only here: it reads files beside the rule files, and needs no running workspace.
typer.Typer.command(app, "test")(run_tests)
typer.Typer.command(app, "backtest")(backtest)
typer.Typer.command(app, "tune")(tune)
typer.Typer.command(app, "why")(why)
app.command()(report)
app.command()(ci)

_EXIT_ERRORS = 1
_EXIT_WARNINGS = 3
_EXIT_CHANGES = 3

# Keys of an explanation whose values are durations in seconds.
_SHOWN_ALIKE = 3  # warnings or notes of one text
_DURATION_KEYS = frozenset({"reach", "lag", "before", "after", "within", "delay"})
# Engines of an explanation as the table names them.
_ENGINE_NAMES = {
    "spark": "Spark",
    "recall process": "DuckDB",
    "recall process or spark": "DuckDB or Spark",
    "live process, or spark for rows that are not in memory": (
        "DuckDB, or Spark for rows that are not in memory"
    ),
}

RuleFilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(help="Rule files. Default: the rule files of the workspace."),
]
RuleArgument = Annotated[str, typer.Argument(help="Name of the rule, with or without its group.")]


@app.command()
def check(
    files: RuleFilesArgument = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="Evaluate the rules over the archive, too, and warn of what they would have done.",
        ),
    ] = False,
    last: Annotated[
        str | None,
        typer.Option("--last", metavar="DURATION", help="With --history: which part. Default: 7d."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Check rule files. Exit code 0 if they are valid, 1 on errors, 3 on warnings only.

    Notes have no exit code.
    """
    if history and uses_server():
        raise UsageError("--history reads the archive of this machine; leave out --server")
    if last is not None and not history:
        raise UsageError("--last needs --history")
    result = _check(workspace, _make_body(files))
    has_errors = any(map(_is_error, result.problems))
    if history and not has_errors:
        lints = find_history_lints(workspace, files or [], last)
        result = replace(result, problems=[*result.problems, *lints])
    # Warnings about the workspace file are printed too, but the exit code is about rule files.
    messages = [*result.workspace_warnings, *result.problems]
    if output is OutputFormat.JSON:
        rows = list(map(asdict, messages))
        notes = list(map(asdict, result.notes))
        print_json({"rules": result.rules, "problems": rows, "notes": notes})
    else:
        print_warnings(fold_alike(messages))
        if not has_errors:
            print_warnings(fold_alike(result.notes))
            counts = [(len(messages), "warning"), (len(result.notes), "note")]
            texts = [format_count(count, noun) for count, noun in counts if count]
            print(", ".join([f"{format_count(result.rules, 'rule')} OK", *texts]))
            _print_unchecked_relations(workspace)
    if has_errors:
        raise typer.Exit(_EXIT_ERRORS)
    if result.problems:
        raise typer.Exit(_EXIT_WARNINGS)


@app.command()
def apply(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the changes without making them.")
    ] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Deploy the rules of files. A running workspace picks up the changes."""
    from moirae.services.operations import rules

    body = _make_body(files)
    with open_services(workspace) as services:
        if dry_run:
            changes = rules.diff(services, body)
        else:
            changes = rules.apply(services, body)
    print_warnings(changes.warnings)
    for name in changes.resumed:
        print(f"{name}: quarantine ended", file=sys.stderr)
    _print_steps([step for step in changes.steps if step.action != "stay"], output)


@app.command()
def diff(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what `apply` would change. Exit code 0 if nothing, 1 on errors, 3 on changes."""
    from moirae.services.operations import rules

    with open_services(workspace) as services:
        changes = rules.diff(services, _make_body(files))
    print_warnings(changes.warnings)
    _print_steps(changes.steps, output)
    if any(step.action != "stay" for step in changes.steps):
        raise typer.Exit(_EXIT_CHANGES)


@dataclass(frozen=True)
class RuleSelectionOptions:
    """The options that select applied rules."""

    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Only rules with this text in their name."),
    ] = None
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only rules in this state: running, quarantined, disabled."),
    ] = None
    reads: Annotated[
        str | None,
        typer.Option(
            "--reads",
            metavar="NAME",
            help="Only rules that read this stream, derived stream or relation.",
        ),
    ] = None
    sort: Annotated[
        str, typer.Option("--sort", help="Order: name, or cost, the most expensive first.")
    ] = "name"
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Maximum number of rules.")
    ] = None
    offset: Annotated[int, typer.Option("--offset", min=0, help="Number of rules to skip.")] = 0


@app.command("list")
@expand_option_groups
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    selection: RuleSelectionOptions = RuleSelectionOptions(),
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List applied rules with their state, settled time and progress through history."""
    from moirae.services.operations.rules import RuleSelection, list_rules

    query = make_query(RuleSelection, **vars(selection))
    with open_services(workspace) as services:
        rows = list_rules(services, query)
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = [
        "rule",
        "version",
        "state",
        "settled to",
        "error",
        "lost verdicts",
        "seconds (last hour)",
        "last firing",
        "history",
    ]
    empty_message = "no rules applied: run `moirae rules apply` or `moirae up`"
    if any((selection.search, selection.state, selection.reads, selection.offset)):
        empty_message = "no such rules"
    print_table(columns, map(_format_row, rows), empty_message)


@app.command()
def show(
    rule: RuleArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an applied rule with its definition, errors and progress through history."""
    from moirae.services.operations.rules import show_rule

    with open_services(workspace) as services:
        details = show_rule(services, rule)
    stored = dict(details.definition)
    properties = {
        "name": details.name,
        "version": details.version,
        "state": details.state,
        "errors": list(map(vars, details.errors)),
        "lost_verdicts": list(map(vars, details.lost)),
        "history": details.history,
        "group": stored.pop("rule"),
        **stored,
    }
    _print_details(properties, output)


@app.command()
def explain(
    rule: RuleArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Explain how a rule is executed: engine, shared query, recall plans."""
    from moirae.services.operations import rules

    with open_services(workspace) as services:
        explanation = rules.explain(services, rule)
    if output is OutputFormat.TABLE:
        explanation = format_explanation(explanation)
    _print_details(explanation, output)


@app.command()
def resume(
    rules: Annotated[
        list[str], typer.Argument(help="Names of rules, with or without their group.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """End the quarantine of rules. Evaluation continues where it stopped."""
    from moirae.services.operations.rules import RuleNames
    from moirae.services.operations.rules import resume as resume_rules

    with open_services(workspace) as services:
        resumed = resume_rules(services, make_query(RuleNames, rules=rules))
    for rule in resumed:
        if rule.resumed:
            print(f"{rule.rule}: quarantine ended")
        else:
            print(f"{rule.rule}: not in quarantine")


def format_explanation(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation for readers: durations with units, and engines by their names."""
    formatted: dict[str, Any] = _format_durations(explanation)
    parts = [formatted["evaluation"]]
    for recall in formatted.get("recalls", {}).values():
        if recall["kind"] == "sql":
            parts.append(recall)
    for part in parts:
        part["engine"] = _ENGINE_NAMES.get(part["engine"], part["engine"])
    return formatted


def fold_alike(problems: Iterable[Problem]) -> Iterator[Problem | str]:
    """All errors; of warnings and notes the first of each text, then how many rules have it, too."""
    problems_by_text: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        _, _, text = problem.message.partition(": ")  # after the rule's name
        problems_by_text.setdefault((problem.severity, text), []).append(problem)
    for (severity, text), alike in problems_by_text.items():
        shown = alike if severity == "error" else alike[:_SHOWN_ALIKE]
        yield from shown
        if len(shown) < len(alike):
            remaining = format_count(len(alike) - len(shown), "more rule")
            yield f"{severity}: {remaining}: {text}; -o json lists them"


def _format_durations(value: Any) -> Any:
    """A copy in which the durations, numbers of seconds, are text such as `5m`."""
    if not isinstance(value, Mapping):
        return value
    formatted: dict[str, Any] = {}
    for name, item in value.items():
        if name in _DURATION_KEYS and isinstance(item, int | float):
            formatted[name] = _format_seconds(item)
        else:
            formatted[name] = _format_durations(item)
    return formatted


def _format_seconds(seconds: float) -> str:
    # Some durations are a microsecond shorter than a window.
    text = format_duration(timedelta(milliseconds=round(abs(seconds) * 1000)))
    return f"-{text}" if seconds < 0 else text


def _make_body(files: Sequence[Path] | None) -> "RuleFiles":
    """The rule files of a command, with their contents where a server gets them."""
    from moirae.services.operations.rules import RuleDocument, RuleFiles

    if not files:
        return RuleFiles(files=None)
    rule_files = []
    for file in files:
        content = None
        if uses_server():
            if not file.is_file():
                raise UsageError(f"{file}: no such rule file")
            try:
                content = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise MoiraeError(f"{file}: cannot be read: {error}") from error
        rule_files.append(make_query(RuleDocument, name=str(file), content=content))
    return make_query(RuleFiles, files=rule_files)


def _check(workspace: Path, body: "RuleFiles") -> "RuleCheck":
    from moirae.services.operations import rules

    with open_remote() as server:
        if server is not None:
            return rules.check(server, body)
    # Without a database.
    return rules.run_check(load_settings_from_environment(workspace), body, allow_paths=True)


def _print_unchecked_relations(workspace: Path) -> None:
    """Say what the check of a local workspace leaves out: it needs no database."""
    if uses_server():
        return
    relations = load_settings_from_environment(workspace).relations
    if relations:
        print(
            f"not checked: whether stored rows of {format_count(len(relations), 'relation')} fit the "
            "declared columns and key; they are in the database, `moirae up` checks that first"
        )


def _is_error(problem: Problem) -> bool:
    return problem.severity == "error"


def _print_steps(steps: Sequence["RuleStep"], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json(list(map(vars, steps)))
        return
    rows = [(step.action, step.rule, step.before, step.after) for step in steps]
    print_table(["change", "rule", "from version", "to version"], rows, "no changes")


def _format_row(rule: "AppliedRule") -> list[Any]:
    from moirae.history import format_progress

    return [
        rule.rule,
        rule.version,
        rule.state,
        rule.settled_to,
        rule.error,
        rule.lost or None,
        rule.seconds or None,
        rule.last_fired_at,
        format_progress(dict(rule.history)) if rule.history else None,
    ]


def _print_details(details: dict[str, Any], output: OutputFormat) -> None:
    """Print nested data as YAML, or as JSON."""
    if output is OutputFormat.JSON:
        print_json(details)
        return
    print_yaml(details)
