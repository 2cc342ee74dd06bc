"""How a rule runs: which query judges it, who shares it, what is archived for it, how its recalls are taken apart."""

from collections.abc import Sequence
from typing import Any

from moirae.config import Settings
from moirae.evaluation import CONTEXT_ROWS, ActiveRule, RuleBatcher, bind_event_query
from moirae.history import event_overlap, select_archived_streams
from moirae.rules import (
    Definition,
    build_context_queries,
    build_questions,
    build_rule_tables,
    infer_event_shape,
    keys_without_effect,
)
from recall.engines import Template, explain_engine
from recall.query import PlainQuery, window_specs
from recall.requests import SqlQuestion

_MICROS_PER_SECOND = 1_000_000
_ENGINE_LABELS = {
    "spark": "spark",
    "local": "the recall process itself",
    "either": "the recall process itself, or spark",
}


def explain_rule(
    settings: Settings, definitions: Sequence[Definition], name: str
) -> dict[str, Any]:
    """All of it about one of some applied rules, as plain data; spans in seconds of event time."""
    running = [
        _active_rule(settings, definition)
        for definition in definitions
        if definition.rule.spec.enabled
    ]
    rule = next((one for one in running if one.name == name), None)
    if rule is None:
        return {"rule": name, "judged": {"by": "nobody: it is not enabled"}}
    without_effect = keys_without_effect(rule.definition.rule)
    return {
        "rule": name,
        "version": rule.definition.version,
        "reads": {"streams": sorted(rule.shape.streams), "relations": sorted(rule.shape.relations)},
        "judged": _explain_evaluation(settings, running, rule),
        "archived": _list_archived(rule),
        "contexts": _explain_contexts(rule),
        "recalls": {
            recall: _explain_recall(settings, rule, question)
            for recall, question in build_questions(rule.definition, rule.tables).items()
        },
        **({"without_effect": without_effect} if without_effect else {}),
    }


def _active_rule(settings: Settings, definition: Definition) -> ActiveRule:
    streams = {name: stream.time for name, stream in settings.streams.items()}
    tables = build_rule_tables(definition.rule, streams, frozenset(settings.relations))
    return ActiveRule(definition, tables, infer_event_shape(definition.rule, tables))


def _explain_evaluation(
    settings: Settings, running: Sequence[ActiveRule], rule: ActiveRule
) -> dict[str, Any]:
    sharing = RuleBatcher({name: stream.columns for name, stream in settings.streams.items()})
    # Rules of the same kind and reach are settled over the same slices.
    alike = [one for one in running if _slice_key(one) == _slice_key(rule)]
    place = alike.index(rule)
    group = next((one for one in sharing.batch(alike).batches if place in one.rule_indexes), None)
    shape = rule.shape
    told = (
        "at once, provisionally; settled by the watermark"
        if shape.is_stateless
        else "when the watermark closes a window"
    )
    times = {
        "told": told,
        "reach": shape.reach / _MICROS_PER_SECOND,
        "lag": shape.lag / _MICROS_PER_SECOND,
    }
    beside = event_overlap(rule.definition)
    looks = {
        "before": (shape.reach + beside.before) / _MICROS_PER_SECOND,
        "after": (max(shape.lag, 0) + beside.after) / _MICROS_PER_SECOND,
    }
    local = settings.recall.engine != "spark"
    by: dict[str, Any]
    if group is None:
        query = bind_event_query(rule).sql(dialect="spark")
        by = {
            "by": "spark",
            "because": sharing.explain_not_plain(rule),
            "query": query,
            "constants": {},
            "shared_with": [],
        }
    else:
        plain = group.duckdb_query if local else group.spark_query
        constants = (
            group.constants.take([group.rule_indexes.index(place)])
            .drop_columns(["rule"])
            .to_pylist()[0]
        )
        by = {
            "by": "this process, or Spark where rows are not in memory" if local else "spark",
            "query": plain.sql("constants"),
            "constants": constants,
            "shared_with": [alike[member].name for member in group.rule_indexes if member != place],
        }
    return {
        **by,
        **times,
        "overlap": looks,
        **_explain_windows(rule, group.duckdb_query if group is not None and local else None),
    }


def _explain_windows(rule: ActiveRule, here: PlainQuery | None) -> dict[str, Any]:
    """How windows that overlap are aggregated, if the rule has any; `here`: what this process judges it by."""
    if not any(size > slide for size, slide, _ in window_specs(bind_event_query(rule))):
        return {}
    if here is None:
        return {"windows": "aggregated whole at each slide: spark judges them"}
    if here.paned_query is None:
        return {"windows": "aggregated whole at each slide: one lies over another"}
    length, count = (
        here.paned_query.pane_length / _MICROS_PER_SECOND,
        here.paned_query.window[0] // here.paned_query.pane_length,
    )
    return {
        "windows": f"each merged of {count} panes of {length:g} s, a row aggregated once; whole while rows are few",
        "partial": "constants".join(here.paned_query.partial),
        "merge": "constants".join(here.paned_query.merge),
    }


def _slice_key(rule: ActiveRule) -> tuple[int, int, bool]:
    return rule.shape.reach, rule.shape.lag, rule.shape.is_stateless


def _list_archived(rule: ActiveRule) -> list[str]:
    spec = rule.definition.rule.spec
    kept = [*(f"stream {name}" for name in sorted(rule.shape.streams)), "its events"]
    derived = select_archived_streams([rule.definition], rule.tables.streams, rule.tables.relations)
    kept += [f"derived stream {name}" for name in sorted({one.name for one in derived})]
    return [*kept, "the contexts of its alerts"] if spec.context or spec.surroundings else kept


def _explain_contexts(rule: ActiveRule) -> dict[str, Any]:
    return {
        ask.name: {
            "sql": ask.query.sql,
            "compared": ask.is_compared,
            "within": ask.within / _MICROS_PER_SECOND,
            "delay": ask.delay / _MICROS_PER_SECOND,
            "limit": CONTEXT_ROWS,
        }
        for ask in build_context_queries(rule.definition)
    }


def _explain_recall(settings: Settings, rule: ActiveRule, question: Any) -> dict[str, Any]:
    if not isinstance(question, SqlQuestion):
        return {
            "kind": "similarity",
            "over": list(question.contexts),
            "merge": f"the {question.k} most similar so far, by {question.measure}",
            "engine": "arrays in the recall process",
            "revisions": "insert, update and delete rows",
        }
    template = Template(question)
    split = template.split
    columns = {name: stream.columns for name, stream in settings.streams.items()}
    reads = explain_engine(template, columns, settings.recall.engine)
    errors = {
        aggregate.text: aggregate.error_bound
        for aggregate in split.aggregates
        if aggregate.error_bound
    }
    return {
        "kind": "sql",
        "partial": split.partial.sql(dialect="spark"),
        "merge": split.merge.sql(dialect="spark"),
        **({"errors": errors} if errors else {}),
        "engine": _ENGINE_LABELS[reads.engine],
        "because": reads.reason,
        "revisions": _explain_revisions(template),
    }


def _explain_revisions(template: Template) -> str:
    """What later revisions do to the rows of earlier ones."""
    split = template.split
    if split.is_global_aggregate:
        return "update the one row"
    dropped = {"where", "having", "limit"} & {
        name for name, value in split.merge.args.items() if value
    }
    if split.selects_rows:
        return "insert and delete rows"
    return "insert, update and delete rows" if dropped else "insert and update rows"
