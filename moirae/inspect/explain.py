"""How a rule is executed: engine, shared query, archived data, plans of its recalls."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import Any

from archiver.times import Micros, format_duration
from moirae.config import Settings
from moirae.documents import format_path
from moirae.evaluation import (
    EventContexts,
    IndexedRules,
    IndexExplanation,
    RuleGrouper,
    is_executable,
)
from moirae.evaluation.plan import ActiveRule
from moirae.history import event_overlap, explain_summary, select_archived_streams
from moirae.inspect.recall_costs import HistoryCosts, estimate_costs
from moirae.rules import Definition, list_event_queries
from moirae.rules.requests import (
    build_context_queries,
    build_event_plan,
    build_questions,
    find_recalls_in_where,
)
from recall.engines import Template
from recall.engines.routing import explain_engine
from recall.event_plans import order_stages
from recall.history_ranges import MINUTE, Landmark, Season
from recall.query import find_tables_reached, tables_in, window_specs
from recall.query.plain import PlainQuery
from recall.requests import SqlQuestion
from recall.stages import explain_stage_engine, stage_queries
from sql.archive import SummaryRow

_MICROS_PER_SECOND = 1_000_000
_CONSTANTS_TABLE = "constants"  # name of the table of a shared query's constants
# How a recall reads history, and what a revision costs.
_EACH_CHUNK_ONCE = "each chunk once; a revision costs the chunks that it adds"
_GROWING_RANGES = (
    "growing ranges, each about twice as long as the one before: a revision costs one evaluation of "
    "its range, all of them at most two of the whole"
)
_ORDERS = {
    "weighted": (
        "chunks are drawn with chances in proportion to their rows with the key of the event, times "
        "{0.fade:g} for each newer chunk"
    ),
    "extreme": (
        "chunks whose values of {0.extreme} lie farthest from the usual ones first; the coverage bounds "
        "the values not read"
    ),
}
_RECALL_ENGINES = {
    "spark": "spark",
    "local": "recall process",
    "either": "recall process or spark",
}


def explain_rule(
    settings: Settings,
    definitions: Sequence[Definition],
    name: str,
    summaries: Sequence[SummaryRow] = (),
    costs: HistoryCosts | None = None,
) -> dict[str, Any]:
    """The execution of one of the applied rules, as plain data; durations in seconds.

    `summaries`: what is recorded about those of closed chunks. `costs`: None: without them.
    """
    rules: dict[str, ActiveRule] = {}
    for definition in definitions:
        if definition.spec.enabled:
            rules[definition.name] = ActiveRule.of_workspace(definition, settings)
    if name not in rules:
        return {"rule": name, "evaluation": {"engine": "none: the rule is disabled"}}
    rule = rules[name]
    definition = rule.definition
    questions = build_questions(definition, rule.tables)
    recalls: dict[str, Any] = {}
    for recall, question in questions.items():
        recalls[recall] = _explain_recall(settings, question, summaries)
        if costs is not None and isinstance(question, SqlQuestion):
            is_whole = Template(question).split.whole is not None
            recalls[recall]["cost"] = estimate_costs(recall, question, costs, is_whole=is_whole)
    explanation = {
        "rule": name,
        "version": rule.version,
        "reads": _explain_reads(rule),
        "evaluation": _explain_evaluation(settings, list(rules.values()), rule),
        "archived": _list_archived(rule),
        "contexts": _explain_contexts(rule),
        "recalls": recalls,
    }
    if definition.spec.then:
        explanation["stages"] = _explain_stages(settings, rule)
    if definition.spec.where is not None:
        explanation["where"] = {
            "condition": definition.spec.where,
            "recalls": sorted(find_recalls_in_where(definition)),
            "evaluated": "at each revision of these recalls, and at the boundary of the event",
        }
    unused_keys = definition.rule.keys_without_effect()
    if unused_keys:
        explanation["keys_without_effect"] = {
            format_path(path): reason for path, reason in unused_keys.items()
        }
    return explanation


def _explain_reads(rule: ActiveRule) -> dict[str, Any]:
    """What the event query of a rule reads, and whose events and alerts are among it."""
    declared = rule.definition.rule
    names = {stream.table: stream.name for stream in declared.revision_streams}
    reads: dict[str, Any] = {
        "streams": sorted(names.get(stream, stream) for stream in rule.shape.streams),
        "relations": sorted(rule.shape.relations),
    }
    tables = frozenset().union(*map(tables_in, list_event_queries(declared)))
    reached = find_tables_reached(tables, declared.derived_queries)
    events = {s.rule for s in declared.event_streams if s.rule and s.name in reached}
    if events:
        reads["events_of"] = sorted(events)
    alerts = {rule for stream in declared.revision_streams for rule in stream.rules}
    if alerts:
        reads["alerts_of"] = sorted(alerts)
    return reads


def _explain_evaluation(
    settings: Settings, rules: Sequence[ActiveRule], rule: ActiveRule
) -> dict[str, Any]:
    columns: dict[str, Mapping[str, str]] = {}
    for name, declared in settings.streams.items():
        columns[name] = declared.columns
    for stream in rule.definition.rule.revision_streams:
        columns[stream.table] = stream.columns
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    grouper = RuleGrouper(columns, relations)
    # Rules are settled together if they read the same time range of their streams.
    cohort = [member for member in rules if _cohort_key(member) == _cohort_key(rule)]
    group = next(group for group in grouper.group(cohort) if rule in group.rules)
    indexed = IndexedRules(columns, grouper).explain(grouper.group(cohort), rule)
    local_query: PlainQuery | None = None
    query: dict[str, Any]
    if group.query is None:
        engine, reason = "spark", grouper.explain_not_plain(rule)
        query = {
            "engine": engine,
            "reason": reason,
            "query": rule.bind_event_query().sql(dialect="spark"),
            "constants": {},
            "shared_with": [],
        }
    else:
        is_local = "spark" not in (settings.engine, settings.recall.engine)
        on_executors = (
            settings.engine != "local"
            and group.streams <= settings.streams.keys()
            and is_executable(group, in_slice=True)
        )
        in_memory = "live process" if is_local else "spark"
        if settings.engine == "spark":
            in_memory = ""
        engine, reason = _explain_plain(in_memory, on_executors)
        plain_query = group.spark_query
        if is_local or on_executors:
            plain_query = group.query
        if is_local:
            local_query = group.query
        assert plain_query is not None
        index = group.rules.index(rule)
        row = group.constants.slice(index, 1).drop_columns(["rule"])
        query = {
            "engine": engine,
            "reason": reason,
            "query": plain_query.sql(_CONSTANTS_TABLE),
            "constants": row.to_pylist()[0],
            "shared_with": [member.name for member in group.rules if member is not rule],
        }
    if indexed is not None:
        query |= _explain_index(indexed, str(query["engine"]))
    return {**query, **_explain_times(rule), **_explain_windows(rule, local_query)}


def _explain_index(indexed: IndexExplanation, engine: str) -> dict[str, Any]:
    """The engine of a rule in the index. `engine`: what evaluates it otherwise."""
    if indexed.is_exact:
        reason = f"evaluated for rows with: {indexed.necessary}"
        return {"engine": "rule index", "reason": reason, "necessary": indexed.necessary}
    reason = f"the index leaves {engine} the rows with: {indexed.necessary}"
    return {"engine": engine, "reason": reason, "necessary": indexed.necessary}


def _explain_plain(in_memory: str, on_executors: bool) -> tuple[str, str]:
    """The engines of a plain rule, and why.

    `in_memory`: the engine for rows in the memory of the live process; empty if it holds none.
    """
    archived = "spark"
    reason = "plain; spark for archived rows, as it reads several streams"
    if on_executors:
        archived = "executors"
        reason = "plain, of one stream: tasks read archived files"
    if not in_memory or in_memory == archived:
        return archived, reason
    return f"{in_memory}, or {archived} for rows that are not in memory", reason


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
        # At -1 µs, the end of a window is exclusive: nothing is waited for.
        "lag": max(shape.lag, 0) / _MICROS_PER_SECOND,
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
    if not any(window.overlaps for window in windows):
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
        if context.recalls:
            contexts[context.name]["recalls"] = sorted(context.recalls)
    return contexts


def _explain_recall(
    settings: Settings, question: Any, summaries: Sequence[SummaryRow]
) -> dict[str, Any]:
    if isinstance(question, SqlQuestion):
        return _explain_sql_recall(settings, question, summaries)
    return {
        "kind": "similarity",
        "contexts": list(question.contexts),
        "merge": f"the {question.k} most similar events so far, by {question.measure}",
        "engine": "recall process",
        "revisions": "insert, update and delete rows",
    }


def _explain_sql_recall(
    settings: Settings, question: SqlQuestion, summaries: Sequence[SummaryRow]
) -> dict[str, Any]:
    template = Template(question)
    split = template.split
    columns = {name: stream.query_columns for name, stream in settings.streams.items()}
    decision = explain_engine(template, columns, settings.recall.engine)
    error_bounds: dict[str, str] = {}
    for aggregate in split.aggregates:
        if aggregate.error_bound:
            error_bounds[aggregate.text] = aggregate.error_bound
    explanation: dict[str, Any] = {
        "kind": "sql",
        "partial": split.partial.sql(dialect="spark"),
        "merge": split.merge.sql(dialect="spark"),
        "reads": _EACH_CHUNK_ONCE if split.whole is None else _GROWING_RANGES,
    }
    if question.offset or question.season or question.since or question.until:
        explanation["range"] = _explain_range(question)
    if question.order in _ORDERS:
        explanation["order"] = _ORDERS[question.order].format(question)
    if error_bounds:
        explanation["error_bounds"] = error_bounds
    explanation["engine"] = _RECALL_ENGINES[decision.engine]
    explanation["reason"] = decision.reason
    explanation["revisions"] = _explain_revisions(template)
    explanation["summary"] = explain_summary(question, columns, summaries)
    return explanation


def _explain_range(question: SqlQuestion) -> str:
    """Which event times a recall reads, if it is more than how far back."""
    starts: list[str] = []
    if question.range is not None:
        starts.append(f"from {_format_micros(question.range)} before the event")
    if question.since is not None:
        landmark = Landmark.from_json(question.since)
        hours, minutes = divmod(landmark.time_of_day // MINUTE, 60)
        starts.append(f"since it was last {hours:02}:{minutes:02} in {landmark.zone}")
    if question.until is not None:
        starts.append("since the last event of the alert before, of the same rule and key")
    text = ", but only ".join(starts)
    if question.offset:
        text += f" to {_format_micros(question.offset)} before it"
    if question.season is None:
        return text
    season = Season.from_json(question.season)
    text += f", where the {season.same.replace('_', ' ')} in {season.zone} is that of the event"
    if season.around is not None:
        text += f" or up to {_format_micros(season.around)} from its time"
    return f"{text}; chunks without such a time are not opened"


def _format_micros(duration: Micros) -> str:
    return format_duration(timedelta(microseconds=duration))


def _explain_stages(settings: Settings, rule: ActiveRule) -> dict[str, Any]:
    """The stages in the order in which they are evaluated."""
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    columns = {name: stream.query_columns for name, stream in settings.streams.items()}
    plan = build_event_plan(rule.definition, rule.tables, relations)
    queries = stage_queries(plan, columns)
    stages: dict[str, Any] = {}
    for name in order_stages({stage.name: list(stage.inputs) for stage in plan.stages}):
        query = queries[name]
        stage = query.stage
        engine, reason = explain_stage_engine(query)
        if settings.recall.engine == "spark":
            engine, reason = "spark", "recall.engine is spark"
        inputs = query.lifted.inputs
        live_streams = sorted(inputs.streams | inputs.derived)
        explanation: dict[str, Any] = {
            "sql": stage.sql,
            "reads": [*stage.inputs, *live_streams, *sorted(inputs.relations)],
            "row_key": "the whole row" if stage.row_key is None else list(stage.row_key),
            "engine": engine,
            "reason": reason,
            "limit": settings.limits.stage_rows,
        }
        if live_streams:
            explanation["analysis"] = stage.analysis
            explanation["within"] = stage.within / _MICROS_PER_SECOND
            explanation["delay"] = stage.delay / _MICROS_PER_SECOND
        stages[name] = explanation
    return stages


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
