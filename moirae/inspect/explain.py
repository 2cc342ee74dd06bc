"""How a rule is executed: engine, shared query, archived data, plans of its recalls."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from moirae.config import Settings
from moirae.evaluation import ActiveRule, EventContexts, RuleBatcher
from moirae.history import event_overlap, select_archived_streams
from moirae.rules import Definition, build_context_queries, build_questions
from recall.engines import Template, explain_engine
from recall.query import window_specs
from recall.query.plain import PlainQuery
from recall.requests import SqlQuestion

_MICROS_PER_SECOND = 1_000_000
_CONSTANTS_TABLE = "constants"  # name of the table of a shared query's constants
_RECALL_ENGINES = {
    "spark": "spark",
    "local": "recall process",
    "either": "recall process or spark",
}


def explain_rule(
    settings: Settings, definitions: Sequence[Definition], name: str
) -> dict[str, Any]:
    """The execution of one of the applied rules, as plain data; durations in seconds."""
    rules: dict[str, ActiveRule] = {}
    for definition in definitions:
        if definition.spec.enabled:
            rules[definition.name] = _make_active_rule(settings, definition)
    if name not in rules:
        return {"rule": name, "evaluation": {"engine": "none: the rule is disabled"}}
    rule = rules[name]
    definition = rule.definition
    questions = build_questions(definition, rule.tables)
    recalls: dict[str, Any] = {}
    for recall, question in questions.items():
        recalls[recall] = _explain_recall(settings, question)
    explanation = {
        "rule": name,
        "version": rule.version,
        "reads": {"streams": sorted(rule.shape.streams), "relations": sorted(rule.shape.relations)},
        "evaluation": _explain_evaluation(settings, list(rules.values()), rule),
        "archived": _list_archived(rule),
        "contexts": _explain_contexts(rule),
        "recalls": recalls,
    }
    unused_keys = definition.rule.keys_without_effect()
    if unused_keys:
        explanation["keys_without_effect"] = unused_keys
    return explanation


def _make_active_rule(settings: Settings, definition: Definition) -> ActiveRule:
    time_columns = {name: stream.time for name, stream in settings.streams.items()}
    return ActiveRule.create(definition, time_columns, frozenset(settings.relations))


def _explain_evaluation(
    settings: Settings, rules: Sequence[ActiveRule], rule: ActiveRule
) -> dict[str, Any]:
    columns = {name: stream.columns for name, stream in settings.streams.items()}
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    batcher = RuleBatcher(columns, relations)
    # Rules are settled together if they read the same time range of their streams.
    cohort = [member for member in rules if _cohort_key(member) == _cohort_key(rule)]
    index = cohort.index(rule)
    batches = batcher.batch(cohort).batches
    batch = next((batch for batch in batches if index in batch.rule_indexes), None)
    local_query: PlainQuery | None = None
    query: dict[str, Any]
    if batch is None:
        query = {
            "engine": "spark",
            "reason": batcher.explain_not_plain(rule),
            "query": rule.bind_event_query().sql(dialect="spark"),
            "constants": {},
            "shared_with": [],
        }
    else:
        engine = "spark"
        plain_query = batch.spark_query
        if settings.recall.engine != "spark":
            engine = "live process, or spark for rows that are not in memory"
            plain_query = local_query = batch.duckdb_query
        row = batch.constants.slice(batch.rule_indexes.index(index), 1).drop_columns(["rule"])
        shared_with = []
        for member in batch.rule_indexes:
            if member != index:
                shared_with.append(cohort[member].name)
        query = {
            "engine": engine,
            "query": plain_query.sql(_CONSTANTS_TABLE),
            "constants": row.to_pylist()[0],
            "shared_with": shared_with,
        }
    return {**query, **_explain_times(rule), **_explain_windows(rule, local_query)}


def _cohort_key(rule: ActiveRule) -> tuple[int, int, bool]:
    return rule.shape.reach, rule.shape.lag, rule.shape.is_stateless


def _explain_times(rule: ActiveRule) -> dict[str, Any]:
    """When events are detected, and the event time around them that is read, in seconds."""
    shape = rule.shape
    overlap = event_overlap(rule.definition)
    detection = "when the watermark closes a window"
    if shape.is_stateless:
        detection = "on arrival (provisional), settled by the watermark"
    return {
        "detection": detection,
        "reach": shape.reach / _MICROS_PER_SECOND,
        "lag": shape.lag / _MICROS_PER_SECOND,
        "overlap": {
            "before": (shape.reach + overlap.before) / _MICROS_PER_SECOND,
            "after": (max(shape.lag, 0) + overlap.after) / _MICROS_PER_SECOND,
        },
    }


def _explain_windows(rule: ActiveRule, local_query: PlainQuery | None) -> dict[str, Any]:
    """How sliding windows are aggregated; empty for a rule without them.

    `local_query`: the query of the live process, None where Spark evaluates the rule.
    """
    windows = window_specs(rule.bind_event_query())
    if not any(window.size > window.slide for window in windows):
        return {}
    if local_query is None:
        return {"windows": "each aggregated from all its rows: evaluated by spark"}
    paned_query = local_query.paned_query
    if paned_query is None:
        reasons: list[str] = []
        if len(windows) > 1:
            reasons.append("reads another window")
        if local_query.has_relations:
            reasons.append("joins a relation")
        return {"windows": f"each aggregated from all its rows: it {' and '.join(reasons)}"}
    length = paned_query.pane_length
    size = paned_query.window.size
    return {
        "windows": f"each merged from {size // length} panes of {length / _MICROS_PER_SECOND:g} s; "
        "aggregated from all its rows while these are few",
        "partial": _CONSTANTS_TABLE.join(paned_query.partial),
        "merge": _CONSTANTS_TABLE.join(paned_query.merge),
    }


def _list_archived(rule: ActiveRule) -> list[str]:
    derived = select_archived_streams([rule.definition], rule.tables.streams, rule.tables.relations)
    derived_names = sorted(set(map(attrgetter("name"), derived)))
    names = list(map("stream {}".format, sorted(rule.shape.streams)))
    names.append("events")
    names += map("derived stream {}".format, derived_names)
    spec = rule.spec
    if spec.context or spec.surroundings:
        names.append("contexts of alerts")
    return names


def _explain_contexts(rule: ActiveRule) -> dict[str, Any]:
    contexts: dict[str, Any] = {}
    for context in build_context_queries(rule.definition):
        contexts[context.name] = {
            "sql": context.query.sql,
            "compared": context.is_compared,
            "within": context.within / _MICROS_PER_SECOND,
            "delay": context.delay / _MICROS_PER_SECOND,
            "limit": EventContexts.MAX_ROWS,
        }
    return contexts


def _explain_recall(settings: Settings, question: Any) -> dict[str, Any]:
    if isinstance(question, SqlQuestion):
        return _explain_sql_recall(settings, question)
    return {
        "kind": "similarity",
        "contexts": list(question.contexts),
        "merge": f"the {question.k} most similar events so far, by {question.measure}",
        "engine": "recall process",
        "revisions": "insert, update and delete rows",
    }


def _explain_sql_recall(settings: Settings, question: SqlQuestion) -> dict[str, Any]:
    template = Template(question)
    split = template.split
    columns = {name: stream.columns for name, stream in settings.streams.items()}
    decision = explain_engine(template, columns, settings.recall.engine)
    error_bounds: dict[str, str] = {}
    for aggregate in split.aggregates:
        if aggregate.error_bound:
            error_bounds[aggregate.text] = aggregate.error_bound
    explanation: dict[str, Any] = {
        "kind": "sql",
        "partial": split.partial.sql(dialect="spark"),
        "merge": split.merge.sql(dialect="spark"),
    }
    if error_bounds:
        explanation["error_bounds"] = error_bounds
    explanation["engine"] = _RECALL_ENGINES[decision.engine]
    explanation["reason"] = decision.reason
    explanation["revisions"] = _explain_revisions(template)
    return explanation


def _explain_revisions(template: Template) -> str:
    """What later revisions do to the rows of earlier ones."""
    split = template.split
    if split.is_global_aggregate:
        return "update the one row"
    if split.selects_rows:
        return "insert and delete rows"
    clauses: Mapping[str, Any] = split.merge.args
    can_delete = any(clauses.get(name) for name in ("where", "having", "limit"))
    if can_delete:
        return "insert, update and delete rows"
    return "insert and update rows"
