"""How a rule runs: which query judges it, who shares it, what is archived for it, how its recalls are taken apart."""

from collections.abc import Sequence
from typing import Any

from moirae.judging.plan import Running, bound
from moirae.judging.share import Sharing
from moirae.rules.definition import Definition, event_shape, tables_of
from moirae.rules.requests import asks, questions
from moirae.settings import Settings
from moirae.views.derived import needed
from moirae.views.plan import overlap
from recall.engines.chosen import why
from recall.engines.template import Template
from recall.query.plain import Plain
from recall.query.shape import windows_in
from recall.request import SqlQuestion

_SECOND = 1_000_000
_ENGINES = {"spark": "spark", "local": "the recall process itself", "either": "the recall process itself, or spark"}


def explain(settings: Settings, definitions: Sequence[Definition], name: str) -> dict[str, Any]:
    """All of it about one of some applied rules, as plain data; spans in seconds of event time."""
    running = [_running(settings, definition) for definition in definitions if definition.rule.spec.enabled]
    rule = next((one for one in running if one.rule == name), None)
    if rule is None:
        return {"rule": name, "judged": {"by": "nobody: it is not enabled"}}
    return {
        "rule": name,
        "version": rule.definition.version,
        "reads": {"streams": sorted(rule.shape.streams), "relations": sorted(rule.shape.relations)},
        "judged": _judged(settings, running, rule),
        "archived": _archived(rule),
        "contexts": _contexts(rule),
        "recalls": {
            recall: _recall(settings, rule, question)
            for recall, question in questions(rule.definition, rule.tables).items()
        },
    }


def _running(settings: Settings, definition: Definition) -> Running:
    streams = {name: stream.time for name, stream in settings.streams.items()}
    tables = tables_of(definition.rule, streams, frozenset(settings.relations))
    return Running(definition, tables, event_shape(definition.rule, tables))


def _judged(settings: Settings, running: Sequence[Running], rule: Running) -> dict[str, Any]:
    sharing = Sharing({name: stream.columns for name, stream in settings.streams.items()})
    # Rules of the same kind and reach are settled over the same slices.
    alike = [one for one in running if _slice(one) == _slice(rule)]
    place = alike.index(rule)
    group = next((one for one in sharing.of(alike).groups if place in one.members), None)
    shape = rule.shape
    told = (
        "at once, provisionally; settled by the watermark" if shape.stateless else "when the watermark closes a window"
    )
    times = {"told": told, "reach": shape.reach / _SECOND, "lag": shape.lag / _SECOND}
    beside = overlap(rule.definition)
    looks = {
        "before": (shape.reach + beside.before) / _SECOND,
        "after": (max(shape.lag, 0) + beside.after) / _SECOND,
    }
    local = settings.recall.engine != "spark"
    by: dict[str, Any]
    if group is None:
        query = bound(rule).sql(dialect="spark")
        by = {"by": "spark", "because": sharing.reason(rule), "query": query, "constants": {}, "shared_with": []}
    else:
        plain = group.duck if local else group.spark
        constants = group.constants.take([group.members.index(place)]).drop_columns(["rule"]).to_pylist()[0]
        by = {
            "by": "this process, or Spark where rows are not in memory" if local else "spark",
            "query": plain.sql("constants"),
            "constants": constants,
            "shared_with": [alike[member].rule for member in group.members if member != place],
        }
    return {**by, **times, "overlap": looks, **_sliding(rule, group.duck if group is not None and local else None)}


def _sliding(rule: Running, here: Plain | None) -> dict[str, Any]:
    """How windows that overlap are aggregated, if the rule has any; `here`: what this process judges it by."""
    if not any(size > slide for size, slide, _ in windows_in(bound(rule))):
        return {}
    if here is None:
        return {"windows": "aggregated whole at each slide: spark judges them"}
    if here.paned is None:
        return {"windows": "aggregated whole at each slide: one lies over another"}
    length, count = here.paned.length / _SECOND, here.paned.window[0] // here.paned.length
    return {
        "windows": f"each merged of {count} panes of {length:g} s, a row aggregated once; whole while rows are few",
        "partial": "constants".join(here.paned.partial),
        "merge": "constants".join(here.paned.merge),
    }


def _slice(rule: Running) -> tuple[int, int, bool]:
    return rule.shape.reach, rule.shape.lag, rule.shape.stateless


def _archived(rule: Running) -> list[str]:
    spec = rule.definition.rule.spec
    kept = [*(f"stream {name}" for name in sorted(rule.shape.streams)), "its events"]
    derived = needed([rule.definition], rule.tables.streams, rule.tables.relations)
    kept += [f"derived stream {name}" for name in sorted({one.name for one in derived})]
    return [*kept, "the contexts of its alerts"] if spec.context or spec.surroundings else kept


def _contexts(rule: Running) -> dict[str, Any]:
    return {
        ask.name: {
            "sql": ask.query.sql,
            "compared": ask.compared,
            "within": ask.within / _SECOND,
            "delay": ask.delay / _SECOND,
        }
        for ask in asks(rule.definition)
    }


def _recall(settings: Settings, rule: Running, question: Any) -> dict[str, Any]:
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
    reads = why(template, columns, settings.recall.engine)
    errors = {aggregate.text: aggregate.error for aggregate in split.aggregates if aggregate.error}
    return {
        "kind": "sql",
        "partial": split.partial.sql(dialect="spark"),
        "merge": split.merge.sql(dialect="spark"),
        **({"errors": errors} if errors else {}),
        "engine": _ENGINES[reads.engine],
        "because": reads.reason,
        "revisions": _revisions(template),
    }


def _revisions(template: Template) -> str:
    """What later revisions do to the rows of earlier ones."""
    split = template.split
    if split.whole:
        return "update the one row"
    dropped = {"where", "having", "limit"} & {name for name, value in split.merge.args.items() if value}
    if split.rows:
        return "insert and delete rows"
    return "insert, update and delete rows" if dropped else "insert and update rows"
