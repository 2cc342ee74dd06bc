"""`moirae rules`: check, apply and inspect rules."""

import difflib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_count,
    open_workspace,
    print_json,
    print_table,
    print_warnings,
)
from moirae.config import Settings, format_duration, load_settings_from_environment
from moirae.errors import Problem, ProblemsError, UsageError

if TYPE_CHECKING:
    from moirae.deployments import DeploymentStep
    from moirae.rules import Definition

app = typer.Typer(help="Check, apply and inspect rules.", no_args_is_help=True)

_EXIT_ERRORS = 1
_EXIT_WARNINGS = 3
_EXIT_CHANGES = 3

# Keys of an explanation whose values are durations in seconds.
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
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Check rule files. Exit code 0 if they are valid, 1 on errors, 3 on warnings only."""
    settings = load_settings_from_environment(workspace)
    try:
        definitions, problems = _check_files(settings, files or [])
    except ProblemsError as error:
        definitions, problems = [], list(error.problems)
    has_errors = any(map(_is_error, problems))
    # Warnings about the workspace file are printed too, but the exit code is about rule files.
    messages = [*settings.warnings, *problems]
    if output is OutputFormat.JSON:
        rows = list(map(asdict, messages))
        print_json({"rules": len(definitions), "problems": rows})
    else:
        print_warnings(messages)
        if not has_errors:
            note = f", {format_count(len(messages), 'warning')}" if messages else ""
            print(f"{format_count(len(definitions), 'rule')} OK{note}")
    if has_errors:
        raise typer.Exit(_EXIT_ERRORS)
    if problems:
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
    from moirae.deployments import RuleRegistry, changing_steps, compute_digest

    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    digest = compute_digest(settings.find_rule_files())
    definitions, problems = _check_files(settings, files or [])
    print_warnings(problems)
    resumed: list[str] = []
    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        if dry_run:
            steps = changing_steps(registry.plan_changes(definitions))
        else:
            steps = registry.apply(definitions)
            # Applying a rule again is a request to run it.
            resumed = registry.resume([definition.name for definition in definitions])
            if not files:
                sql.RuleFileGateway(connection).record_check(0, digest, None)
    for name in resumed:
        print(f"{name}: quarantine ended", file=sys.stderr)
    _print_steps(steps, output)


@app.command()
def diff(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show what `apply` would change. Exit code 0 if nothing, 1 on errors, 3 on changes."""
    from moirae.deployments import RuleRegistry, changing_steps

    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    definitions, problems = _check_files(settings, files or [])
    print_warnings(problems)
    with open_workspace(workspace) as (_, connection):
        steps = RuleRegistry(connection).plan_changes(definitions)
    _print_steps(steps, output)
    if changing_steps(steps):
        raise typer.Exit(_EXIT_CHANGES)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List applied rules with their state, settled time and progress through history."""
    from moirae.deployments import RuleRegistry
    from moirae.history import list_view_progress

    with open_workspace(workspace) as (_, connection):
        definitions = RuleRegistry(connection).desired_rules()
        deployments = _load_deployments(connection)
        history = list_view_progress(connection)
    rows = []
    for definition in definitions:
        name = definition.name
        rows.append(_make_row(definition, deployments.get(name), history.get(name)))
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = ["rule", "version", "state", "settled to", "error", "history"]
    empty_message = "no rules applied: run `moirae rules apply` or `moirae up`"
    print_table(columns, map(_format_row, rows), empty_message)


@app.command()
def show(
    rule: RuleArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an applied rule with its definition, errors and progress through history."""
    from moirae.deployments import RuleRegistry
    from moirae.history import list_view_progress

    with open_workspace(workspace) as (_, connection):
        definition = _find_definition(RuleRegistry(connection).desired_rules(), rule)
        deployments = _load_deployments(connection)
        errors = list(map(asdict, sql.RuleErrorGateway(connection).list_newest(definition.name)))
        history = list_view_progress(connection).get(definition.name)
    for error in errors:
        del error["rule"]
    stored = definition.to_json()
    details = {
        "name": definition.name,
        "version": definition.version,
        "state": _rule_state(definition, deployments.get(definition.name)),
        "errors": errors,
        "history": history,
        "group": stored.pop("rule"),
        **stored,
    }
    _print_details(details, output)


@app.command()
def explain(
    rule: RuleArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Explain how a rule is executed: engine, shared query, recall plans."""
    from moirae.deployments import RuleRegistry
    from moirae.inspect import explain_rule

    with open_workspace(workspace) as (settings, connection):
        definitions = RuleRegistry(connection).desired_rules()
    name = _find_definition(definitions, rule).name
    explanation = explain_rule(settings, definitions, name)
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
    """End the quarantine of rules. They are evaluated from where they stopped."""
    from moirae.deployments import RuleRegistry

    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        definitions = registry.desired_rules()
        names = [_find_definition(definitions, rule).name for rule in rules]
        resumed = registry.resume(names)
    for name in names:
        if name in resumed:
            print(f"{name}: quarantine ended")
        else:
            print(f"{name}: not in quarantine")


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


def _load_deployments(connection: sql.Connection) -> dict[str, sql.DeploymentRow]:
    """The versions that run or are quarantined, by rule."""
    deployments = sql.DeploymentGateway(connection).list_active()
    return {deployment.rule: deployment for deployment in deployments}


def _find_definition(definitions: Sequence["Definition"], rule: str) -> "Definition":
    """The rule with a name, which may lack the group. Raises `UsageError`."""
    matches: list[Definition] = []
    for definition in definitions:
        if rule in (definition.name, _short_name(definition)):
            matches.append(definition)
    if len(matches) > 1:
        groups = ", ".join(map(attrgetter("name"), matches))
        raise UsageError(f"rule {rule!r} is ambiguous: {groups}")
    if not matches:
        names = map(attrgetter("name"), definitions)
        suggestions = difflib.get_close_matches(rule, [*names, *map(_short_name, definitions)], n=1)
        if suggestions:
            raise UsageError(f"no rule {rule!r}, did you mean {suggestions[0]}?")
        raise UsageError(f"no rule {rule!r}: see `moirae rules list`")
    return matches[0]


def _short_name(definition: "Definition") -> str:
    """The name without the group."""
    return definition.name.split("/")[1]


def _check_files(settings: Settings, files: list[Path]) -> tuple[list["Definition"], list[Problem]]:
    """The rules of files and the warnings about them. Raises `ProblemsError`."""
    from archiver.spark import start_session
    from moirae.deployments import check_rule_files, select_rule_files
    from moirae.rules import find_unused_keys, read_rule_files

    paths = select_rule_files(settings, files)
    rules, problems = read_rule_files(paths, settings.table_names)
    if any(map(_is_error, problems)):
        raise ProblemsError([*problems, *find_unused_keys(rules)])  # no need to start Spark
    warehouse = Path(settings.home) / "warehouse"
    spark = start_session("moirae rules", "local[1]", warehouse, {}, "short")
    try:
        return check_rule_files(spark, settings, paths)
    finally:
        spark.stop()


def _is_error(problem: Problem) -> bool:
    return problem.severity == "error"


def _print_steps(steps: Sequence["DeploymentStep"], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json(list(map(vars, steps)))
        return
    rows = [(step.action, step.rule, step.before, step.after) for step in steps]
    print_table(["change", "rule", "from version", "to version"], rows, "no changes")


def _make_row(
    definition: "Definition", deployment: Any, history: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`deployment`: the running version, None where the rule has never run."""
    from archiver.times import optional_datetime

    return {
        "rule": definition.name,
        "version": definition.version,
        "state": _rule_state(definition, deployment),
        "settled_to": deployment and optional_datetime(deployment.settled_to),
        "error": deployment and deployment.error,
        "history": history,
    }


def _format_row(row: Mapping[str, Any]) -> list[Any]:
    from moirae.history import format_progress

    *cells, history = row.values()
    return [*cells, history and format_progress(history)]


def _rule_state(definition: "Definition", deployment: Any) -> str:
    if not definition.spec.enabled:
        return "disabled"
    if deployment is None or deployment.version != definition.version:
        return "not started yet"
    return str(deployment.state)


def _print_details(details: dict[str, Any], output: OutputFormat) -> None:
    """Print nested data as YAML, or as JSON."""
    if output is OutputFormat.JSON:
        print_json(details)
        return
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(orjson.loads(orjson.dumps(details)), sys.stdout)
