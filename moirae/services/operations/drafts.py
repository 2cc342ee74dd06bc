"""Drafts of rules: the text of one rule, changed and applied in the dashboard."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from moirae.config import Settings
from moirae.errors import Conflict, NotFound, Problem
from moirae.services.models import Arguments, Name
from moirae.services.operation import operation
from moirae.services.operations.rules import WATCHED_FILES, RuleCheck, RuleStep, find_rule
from sql.rules import RuleGateway

if TYPE_CHECKING:
    from moirae.rules import Definition
    from moirae.services.workspace import LocalWorkspace

_MAX_LENGTH = 1 << 18  # characters of a draft
_MAX_COMMENT = 1_000  # characters

DraftText = Annotated[str, Field(max_length=_MAX_LENGTH, description="A rule file with one rule.")]


class DraftBody(Arguments):
    """The text of a draft."""

    content: DraftText
    rule: Name | None = Field(None, description="Rule that it changes; absent: a new one.")


class DraftChange(DraftBody):
    """A draft that is to be applied."""

    version: str | None = Field(
        None, max_length=100, description="Applied version that it changes; absent: a new rule."
    )
    comment: str = Field(
        min_length=1, max_length=_MAX_COMMENT, description="Why; it is in the audit log."
    )


@dataclass(frozen=True)
class RuleText:
    """The YAML of an applied rule. `file`: from which it was cut out; None: written as it is stored.

    `problem`: why no draft of it can be applied here; None: it can be.
    """

    rule: str
    version: str
    content: str
    file: str | None
    problem: str | None


@operation("GET", "/drafts/{rule:path}", role="viewer")
def show(workspace: "LocalWorkspace", rule: Name) -> RuleText:
    """Show the YAML of an applied rule: of its file if that has the applied rule, with comments."""
    from moirae.deployments import RuleRegistry
    from moirae.rules import render_rule

    name = find_rule(RuleGateway(workspace.connection).list_names(), rule)
    stored, damaged = RuleRegistry(workspace.connection).load_stored([name])
    if damaged:
        raise NotFound(f"rule {name!r}: {damaged[0].reason}")
    (definition,) = stored
    if definition.spec.external:
        raise NotFound(f"{name} is a rule of posted alerts, without a query")
    file, content = _find_source(workspace.settings, definition)
    if content is None:
        content = render_rule(definition.rule)
    problem = WATCHED_FILES if workspace.settings.watch_rules else None
    return RuleText(name, definition.version, content, file, problem)


def _find_source(settings: Settings, definition: "Definition") -> tuple[str | None, str | None]:
    """The rule file of the workspace that has the applied rule, and its text with this rule alone."""
    from moirae.rules import extract_rule, parse_rules

    for path in settings.find_rule_files():
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue  # `rules check` reports it
        if definition.spec.alert not in text:
            continue
        content = extract_rule(text, definition.name)
        if content is None:
            continue
        rules, _ = parse_rules(str(path), content, settings.table_names)
        if any(rule.to_json() == definition.rule.to_json() for rule in rules.rules):
            return str(path), content
    return None, None


@operation("POST", "/drafts/read", role="operator", changes=False)
def read(workspace: "LocalWorkspace", body: DraftBody) -> RuleCheck:
    """Read a draft: errors of YAML and schema, at once. `POST /backtests` checks its queries, too."""
    from moirae.deployments import read_draft

    draft = read_draft(workspace.settings, body.content, body.rule)
    return _make_check(draft.problems)


def _make_check(problems: Sequence[Problem]) -> RuleCheck:
    notes = [problem for problem in problems if problem.severity == "note"]
    warnings = [problem for problem in problems if problem.severity != "note"]
    has_errors = any(problem.severity == "error" for problem in problems)
    return RuleCheck(0 if has_errors else 1, warnings, (), notes)


def _check(workspace: "LocalWorkspace", body: DraftBody) -> "tuple[Definition, list[Problem]]":
    from archiver.spark import session_on_demand
    from moirae.deployments import RuleRegistry, check_draft

    settings = workspace.settings
    applied = RuleRegistry(workspace.connection).desired_rules()
    with session_on_demand("moirae rules", Path(settings.home) / "warehouse") as start_spark:
        return check_draft(start_spark, settings, body.content, body.rule, applied)


def _prepare(workspace: "LocalWorkspace", body: DraftChange) -> "Definition":
    if workspace.settings.watch_rules:
        raise Conflict(WATCHED_FILES)
    return _check(workspace, body)[0]


@operation("POST", "/drafts/apply", role="admin", in_child=True, prepare=_prepare)
def apply(workspace: "LocalWorkspace", body: DraftChange, prepared: Any = None) -> RuleStep:
    """Deploy a draft in place of the applied rule of its name; all other rules stay.

    The rule files of the workspace are not changed. Refused while `watch_rules` is on, and if
    another version than `version` is applied now.
    """
    from moirae.deployments import RuleRegistry

    step = RuleRegistry(workspace.connection).apply_one(prepared, body.version)
    return RuleStep(**vars(step))
