"""A draft: the text of a rule file with one rule, checked beside the rules that are applied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moirae.config import Settings
from moirae.deployments.check import find_changed_keys
from moirae.errors import Problem, ProblemsError, has_errors
from moirae.rules import (
    Definition,
    EventStream,
    Rule,
    RuleSet,
    build_event_streams,
    changed_columns,
    find_refusal,
    find_unused_keys,
    parse_rules,
)
from moirae.rules.checks import StartSpark, check_rules
from moirae.runtime.storage import find_altered_types

DRAFT_FILE = "draft.yaml"


@dataclass(frozen=True)
class Draft:
    """A draft as it is read. `rule`: None if the text has errors or another number of rules."""

    rule: Rule | None
    rules: RuleSet
    problems: Sequence[Problem]


def read_draft(settings: Settings, content: str, name: str | None) -> Draft:
    """Read a draft without a check of its queries. `name`: of the rule it changes; None: a new one."""
    rules, read_problems = parse_rules(DRAFT_FILE, content, settings.table_names)
    problems = [*read_problems, *find_unused_keys(rules)]
    if not has_errors(problems):
        problems += _find_other_rules(rules, name)
    rule = None if has_errors(problems) else rules.rules[0]
    return Draft(rule, rules, problems)


def _find_other_rules(rules: RuleSet, name: str | None) -> Iterator[Problem]:
    if len(rules.rules) != 1:
        yield Problem(DRAFT_FILE, None, None, f"a draft has one rule, this has {len(rules.rules)}")
        return
    (rule,) = rules.rules
    if rule.spec.external:
        yield rule.make_problem("rules of posted alerts are changed in rule files", "external")
    if name is not None and rule.id != name:
        yield rule.make_problem(f"this is a draft of {name}: another name is another rule", "alert")


def check_draft(
    start_spark: StartSpark,
    settings: Settings,
    content: str,
    name: str | None,
    applied: Sequence[Definition],
) -> tuple[Definition, list[Problem]]:
    """The definition of the rule of a draft, and warnings. `applied`: all rules that are applied.

    Raises `ProblemsError` if there is any error.
    """
    draft = read_draft(settings, content, name)
    if draft.rule is None:
        raise ProblemsError(draft.problems)
    other_rules = [definition for definition in applied if definition.name != draft.rule.id]
    problems = [*draft.problems, *find_changed_keys(settings, draft.rules)]
    problems += _find_shared_streams(draft.rules, other_rules)
    if has_errors(problems):
        raise ProblemsError(problems)
    checked, check_problems = check_rules(start_spark, settings, draft.rules, other_rules)
    problems += check_problems
    if not has_errors(problems):
        (definition,) = checked
        before = next((entry for entry in applied if entry.name == definition.name), None)
        problems += _find_changed_outputs(definition, before, other_rules)
        problems += _find_changed_events(definition, other_rules, settings)
    if has_errors(problems):
        raise ProblemsError(problems)
    return changed_columns.with_term_types(checked[0], find_altered_types(settings)), problems


def _find_shared_streams(rules: RuleSet, other_rules: Sequence[Definition]) -> Iterator[Problem]:
    """Derived streams that rules beside the draft read, too, and that are different there."""
    for query in rules.derived:
        for definition in other_rules:
            same_name = [entry for entry in definition.rule.derived if entry.stream == query.stream]
            if any(entry.expr != query.expr for entry in same_name):
                yield query.make_problem(
                    f"{definition.name} has this derived stream with another query: change it in "
                    "the rule files, for all of its rules",
                    "expr",
                )
                break
    names = {
        stream: definition.name
        for definition in other_rules
        for stream in definition.outputs.values()
        if stream is not None
    }
    for rule in rules.rules:
        for recall, spec in rule.spec.recall.items():
            if spec.stream in names:
                message = f"{names[spec.stream]} has a stream of the name {spec.stream}"
                yield rule.make_problem(message, "recall", recall, "stream")
        for number, stage in enumerate(rule.spec.then):
            if stage.stream in names:
                message = f"{names[stage.stream]} has a stream of the name {stage.stream}"
                yield rule.make_problem(message, "then", number, "stream")


def _find_changed_outputs(
    definition: Definition, before: Definition | None, other_rules: Sequence[Definition]
) -> Iterator[Problem]:
    """Streams of the rule that other rules read, and that have changed."""
    if before is None:
        return
    for reader in other_rules:
        for stream in reader.rule.revision_streams:
            if stream.rule != definition.name:
                continue
            if definition.outputs.get(stream.output) != before.outputs.get(stream.output) or (
                definition.output_columns(stream.output) != before.output_columns(stream.output)
            ):
                message = (
                    f"{reader.name} reads {stream.name}, whose columns or name would change: "
                    "change both in the rule files"
                )
                yield definition.rule.make_problem(message, "alert")


def _find_changed_events(
    definition: Definition, other_rules: Sequence[Definition], settings: Settings
) -> Iterator[Problem]:
    """Rules that read the events of the rule, whose query has changed."""
    for reader in other_rules:
        for stream in reader.rule.event_streams:
            if stream.rule != definition.name:
                continue
            if _differs(stream, definition, settings):
                message = (
                    f"{reader.name} reads events of this rule, which would change: change it in the "
                    "rule files, for both"
                )
                yield definition.rule.make_problem(message, "alert")
                return


def _differs(stream: EventStream, definition: Definition, settings: Settings) -> bool:
    """Whether the query that computes a rule's events is not that of a stream, or there is none."""
    if find_refusal(definition) is not None:
        return True
    *_, changed = build_event_streams(stream.name, definition, settings.streams)
    return (changed.expr, changed.columns) != (stream.expr, stream.columns)
