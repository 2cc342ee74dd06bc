"""`rules`: check, apply, and what is deployed."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    print_table,
    print_warnings,
)
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import Problem, ProblemsError, UsageError

if TYPE_CHECKING:
    from moirae.deployments import DeploymentStep
    from moirae.rules import Definition

app = typer.Typer(help="Check, apply and show rules.", no_args_is_help=True)

RuleFilesArgument = Annotated[
    list[Path] | None, typer.Argument(help="Rule files; those of the workspace if none is named.")
]

# Warnings only.
_EXIT_WARNINGS = 3
# What is deployed is not what the files say.
_EXIT_CHANGES = 3


@app.command()
def check(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Check rule files: exit 0 good, 1 bad, 3 only warnings."""
    settings = load_settings_from_environment(workspace)
    try:
        definitions, problems = _check_files(settings, files or [])
    except ProblemsError as error:
        definitions, problems = [], list(error.problems)
    bad = any(p.severity == "error" for p in problems)
    # Those of the workspace file are told too, but the exit code is about the rule files.
    told = [*settings.warnings, *problems]
    if output is OutputFormat.JSON:
        print_json({"rules": len(definitions), "problems": [_problem_to_json(p) for p in told]})
    else:
        for problem in told:
            print(problem, file=sys.stderr)
        if not bad:
            print(
                f"{len(definitions)} rules are sound" + (f", {len(told)} warnings" if told else "")
            )
    raise typer.Exit(1 if bad else _EXIT_WARNINGS if problems else 0)


@app.command()
def apply(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Make these rules the deployed ones; a running workspace takes over what differs."""
    from moirae.deployments import RuleRegistry, changing_steps, compute_digest

    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    found = compute_digest(settings.find_rule_files())
    definitions, problems = _check_files(settings, files or [])
    for problem in problems:
        print(problem, file=sys.stderr)
    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        steps = (
            changing_steps(registry.plan_changes(definitions))
            if dry_run
            else registry.apply(definitions)
        )
        # Whoever applies rules again wants them to run.
        resumed = [] if dry_run else registry.resume([d.name for d in definitions])
        if not files and not dry_run:
            registry.record_check(0, found, None)
    for name in resumed:
        print(f"{name} goes on, its quarantine has ended", file=sys.stderr)
    _print_steps(steps, output)


@app.command()
def diff(
    files: RuleFilesArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """What `apply` would start, change, update, stop and let stay: exit 0 nothing to do, 1 bad files, 3 changes."""
    from moirae.deployments import RuleRegistry, changing_steps

    settings = load_settings_from_environment(workspace)
    print_warnings(settings.warnings)
    definitions, problems = _check_files(settings, files or [])
    for problem in problems:
        print(problem, file=sys.stderr)
    with open_workspace(workspace) as (_, connection):
        steps = RuleRegistry(connection).plan_changes(definitions)
    _print_steps(steps, output)
    raise typer.Exit(_EXIT_CHANGES if changing_steps(steps) else 0)


def _print_steps(steps: Sequence["DeploymentStep"], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json([vars(step) for step in steps])
        return
    rows = [(step.action, step.rule, step.before, step.after) for step in steps]
    print_table(["change", "rule", "from version", "to version"], rows, "nothing to change")


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Applied rules, how far each is settled, and how far its past is found."""
    from archiver.times import optional_datetime
    from moirae.deployments import RuleRegistry
    from moirae.history import format_progress, list_view_progress

    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        running = {d.rule: d for d in registry.deployments()}
        past = list_view_progress(connection)
        rows: list[dict[str, Any]] = [
            {
                "rule": d.name,
                "version": d.version,
                "state": _rule_state(d, running.get(d.name)),
                "settled_to": optional_datetime(running[d.name].settled_to)
                if d.name in running
                else None,
                "error": running[d.name].error if d.name in running else None,
                "past": past.get(d.name),
            }
            for d in registry.desired_rules()
        ]
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        columns = ["rule", "version", "state", "settled to", "error", "past"]
        shown = [
            [*list(r.values())[:-1], format_progress(r["past"]) if r["past"] else None]
            for r in rows
        ]
        print_table(columns, shown, "no rules are applied: `moirae rules apply`")


@app.command()
def show(
    rule: Annotated[str, typer.Argument(help="Its name, with or without the group.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """One applied rule, whole."""
    from moirae.deployments import RuleRegistry
    from moirae.history import list_view_progress

    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        definitions, deployed, errors = (
            registry.desired_rules(),
            registry.deployments(),
            registry.errors(),
        )
        past = list_view_progress(connection)
    found = _find_definition(definitions, rule)
    stored = found.to_json()
    state = _rule_state(found, next((d for d in deployed if d.rule == found.name), None))
    charged = [
        {k: v for k, v in vars(e).items() if k != "rule"} for e in errors if e.rule == found.name
    ]
    data = {
        "name": found.name,
        "version": found.version,
        "state": state,
        "errors": charged,
        "past": past.get(found.name),
        "group": stored.pop("rule"),
        **stored,
    }
    if output is OutputFormat.JSON:
        print_json(data)
    else:
        _print_yaml(data)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="Its name, with or without the group.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """How an applied rule runs: who judges it, with whom it shares that, how its recalls are taken apart."""
    from moirae.deployments import RuleRegistry
    from moirae.inspect import explain_rule as explained

    with open_workspace(workspace) as (settings, connection):
        definitions = RuleRegistry(connection).desired_rules()
    data = explained(settings, definitions, _find_definition(definitions, rule).name)
    if output is OutputFormat.JSON:
        print_json(data)
    else:
        _print_yaml(data)


@app.command()
def resume(
    rules: Annotated[list[str], typer.Argument(help="Their names, with or without the group.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """End the quarantine of rules: they go on where they stood, and judge what they have missed."""
    from moirae.deployments import RuleRegistry

    with open_workspace(workspace) as (_, connection):
        registry = RuleRegistry(connection)
        definitions = registry.desired_rules()
        names = [_find_definition(definitions, rule).name for rule in rules]
        resumed = registry.resume(names)
    for name in names:
        print(f"{name} goes on" if name in resumed else f"{name} was not quarantined")


def _find_definition(definitions: Sequence["Definition"], rule: str) -> "Definition":
    """The rule of that name. Raises `UsageError`."""
    names = [d.name for d in definitions]
    found = [d for d in definitions if rule in (d.name, d.name.split("/")[1])]
    if len(found) != 1:
        near = difflib.get_close_matches(rule, [*names, *(n.split("/")[1] for n in names)], n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"no rule {rule!r}{hint}" if not found else f"{rule!r} stands in several groups"
        )
    return found[0]


def _check_files(settings: Settings, files: list[Path]) -> tuple[list["Definition"], list[Problem]]:
    from archiver.spark import start_session
    from moirae.deployments import check_rule_files, select_rule_files
    from moirae.rules import find_unused_keys, read_rule_files

    paths = select_rule_files(settings, files)
    rules, problems = read_rule_files(paths, settings.table_names)
    if any(p.severity == "error" for p in problems):
        raise ProblemsError([*problems, *find_unused_keys(rules)])  # no need to start Spark
    spark = start_session(
        "moirae rules", "local[1]", Path(settings.home) / "warehouse", {}, "short"
    )
    try:
        return check_rule_files(spark, settings, paths)
    finally:
        spark.stop()


def _problem_to_json(problem: Problem) -> dict[str, Any]:
    return {
        name: getattr(problem, name) for name in ("file", "line", "column", "message", "severity")
    }


def _rule_state(definition: "Definition", running: Any) -> str:
    if not definition.rule.spec.enabled:
        return "disabled"
    if running is None or running.version != definition.version:
        return "not started yet"
    return str(running.state)


def _print_yaml(data: dict[str, Any]) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(orjson.loads(orjson.dumps(data)), sys.stdout)
