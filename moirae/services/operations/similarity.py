"""Evaluate the ranking of similar past events on the feedback of operators."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import Field

from moirae.errors import NotFound, UsageError
from moirae.inspect.past_events import SimilarEvent, load_past_events
from moirae.runtime.storage import open_storage
from moirae.services.models import Arguments, Name, Seconds
from moirae.services.operation import allow_queries, operation

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport, JudgedCorpus
    from moirae.services.workspace import LocalWorkspace
    from recall.relevance import Gains
    from recall.relevance.rankers import CandidateSet, DescribedHit

Term = Annotated[str, Field(min_length=3, max_length=1_000, pattern=r"^[^=]+=")]
_MAX_DELAY = 10 * 365 * 86_400.0  # seconds

Track = Callable[["Iterable[CandidateSet]", int, str], "Iterable[CandidateSet]"]
"""Passes items through; gets their number and a description too, to show progress."""


class EvaluationQuery(Arguments):
    """What to evaluate."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    measure: Name | None = Field(
        None, description="Measure whose probabilities are tested. Default: the rule's."
    )
    known_after: Seconds | None = Field(
        None,
        ge=0,
        le=_MAX_DELAY,
        description="Treat each tag as known this long after its event, in s or as text such as "
        "`1h`. Default: when the tag was recorded.",
    )


class DescribedState(Arguments):
    """A state that is compared with the past alerts of a rule."""

    rule: Name = Field(description="Name of the rule, with or without its group.")
    terms: list[Term] = Field(
        min_length=1,
        max_length=500,
        description="What is the case, as terms of the rule's contexts: `attribute=value`.",
    )
    k: int = Field(10, ge=1, le=50, description="Maximum number of past events.")


class UnresolvedQuery(Arguments):
    """Which unresolved alerts to list."""

    rule: Name | None = Field(None, description="Name of the rule, with or without its group.")
    limit: int = Field(10, ge=1, le=1_000, description="Maximum number of alerts.")


@dataclass(frozen=True)
class DescribedAnswer:
    """The past events of a rule that are most similar to a described state, by one of its recalls.

    `compared`: how many past events there are. `unknown`: terms that none of them has.
    """

    rule: str
    recall: str
    measure: str
    compared: int
    unknown: list[str]
    hits: list[SimilarEvent]


@dataclass(frozen=True)
class UnresolvedAlertSummary:
    """An unresolved past alert; the fields of `moirae.feedback.UnresolvedAlert`."""

    alert: str
    rule: str
    ts: datetime
    key: Mapping[str, Any]
    tag: str | None
    probability: float
    recalled: int
    benefit: float


@dataclass(frozen=True)
class ForecastRecordSummary:
    """How the probabilities of a recall by `learned` have held as they were shown, over its last 50
    resolved episodes.

    `episodes`: of these, how many there are so far. `withheld_share`: of the episodes, those without
    probabilities, which count as the frequencies' ones. `log_loss`: the mean of -log of the
    probability of the resolution, in nats; `frequency_log_loss`: of plain frequencies; `excess`: the
    difference, with its 95 % interval from `excess_low` to `excess_high`. `reason`: why frequencies
    are shown since `worse_since`; null: they are not.
    """

    rule: str
    version: str
    recall: str
    episodes: int
    withheld_share: float | None
    log_loss: float | None
    frequency_log_loss: float | None
    excess: float | None
    excess_low: float | None
    excess_high: float | None
    reason: str | None
    worse_since: datetime | None
    checked_at: datetime


@dataclass(frozen=True)
class EvaluationSummary:
    """The evaluation of one corpus: all figures, and the rows of its tables as text."""

    report: dict[str, Any]
    ranker_rows: Sequence[Sequence[str]]
    period_columns: Sequence[str]
    period_rows: Sequence[Sequence[str]]
    stage_columns: Sequence[str]
    stage_rows: Sequence[Sequence[str]]
    forecast_rows: Sequence[Sequence[str]]
    reliability_rows: Sequence[Sequence[str]]


@operation("GET", "/similarity/evaluation", role="operator", in_child=True)
def evaluate(workspace: "LocalWorkspace", query: EvaluationQuery) -> list[EvaluationSummary]:
    """Evaluate the ranking of similar past events, event by event in order of time."""
    reports = evaluate_workspace(workspace, query, lambda queries, total, description: queries)
    return [summarize(report) for report in reports]


def evaluate_workspace(
    workspace: "LocalWorkspace", query: EvaluationQuery, track: Track
) -> "Iterator[EvaluationReport]":
    """A report for each similarity recall of the applied rules."""
    from moirae.feedback import load_judged_corpora

    storage = open_storage(workspace.settings)
    judged = load_judged_corpora(workspace.connection, storage, query.rule)
    corpora = [entry.corpus for entry in judged]
    if not corpora:
        if query.rule is not None:
            raise NotFound(f"no applied rule {query.rule!r} has a similarity recall")
        raise NotFound("no applied rule has a similarity recall")
    for corpus in corpora:
        if query.measure is not None:
            corpus = replace(corpus, measure=check_measure(query.measure))
        known_after = None
        if query.known_after is not None:
            known_after = timedelta(seconds=query.known_after)
        yield build_report(corpus, corpus.gains_of, known_after, leave_one_out=False, track=track)


@allow_queries
@operation("POST", "/similarity/described", role="operator", changes=False, in_child=True)
def compare_described(workspace: "LocalWorkspace", body: DescribedState) -> list[DescribedAnswer]:
    """Find the past events of a rule that are most similar to a state described by terms.

    Its similarity recalls compare it with all settled events of the applied version. Where one
    ranks by `learned`, the measure `attributes` does.
    """
    from moirae.feedback import load_judged_corpora
    from recall.relevance.rankers import rank_described
    from recall.similarity.measures import LEARNED_MEASURE, MEASURES

    storage = open_storage(workspace.settings)
    answers = []
    for entry in load_judged_corpora(workspace.connection, storage, body.rule):
        alerts, measure = entry.corpus.alerts, entry.corpus.measure
        if measure == LEARNED_MEASURE:
            measure = "attributes"
        ranked_alerts = rank_described(alerts, body.terms, body.k, MEASURES[measure])
        known_terms = {term for alert in alerts for term in alert.term_counts}
        unknown = [term for term in dict.fromkeys(body.terms) if term not in known_terms]
        hits = _describe_hits(workspace, ranked_alerts)
        answers.append(
            DescribedAnswer(
                entry.definition.name, entry.recall, measure, len(alerts), unknown, hits
            )
        )
    if not answers:
        raise NotFound(f"no applied rule {body.rule!r} has a similarity recall")
    return answers


def _describe_hits(
    workspace: "LocalWorkspace", described_hits: "Sequence[DescribedHit]"
) -> list[SimilarEvent]:
    from archiver.times import from_micros
    from recall.similarity_reasons import explain_similarity

    eids = [UUID(hit.alert.event_id) for hit in described_hits]
    past_events = load_past_events(workspace.connection, eids)
    hits = []
    for rank, (eid, hit) in enumerate(zip(eids, described_hits, strict=True), start=1):
        event = SimilarEvent(
            eid=eid,
            rank=rank,
            score=hit.score,
            ts=from_micros(hit.alert.ts),
            shared=hit.shared,
            only_new=hit.only_described,
            only_past=hit.only_past,
            past=past_events.get(eid),
            reasons=explain_similarity(hit.shared, hit.only_described, hit.only_past),
        )
        hits.append(event)
    return hits


@operation("GET", "/similarity/unresolved", role="viewer")
def list_unresolved(
    workspace: "LocalWorkspace", query: UnresolvedQuery
) -> list[UnresolvedAlertSummary]:
    """List the unresolved past alerts from whose resolution most would be learned."""
    from moirae.feedback import list_unresolved as list_alerts

    alerts = list_alerts(workspace.connection, query.rule, query.limit)
    return [UnresolvedAlertSummary(**vars(alert), benefit=alert.benefit) for alert in alerts]


@operation("GET", "/similarity/forecasts", role="viewer")
def list_forecast_records(workspace: "LocalWorkspace") -> list[ForecastRecordSummary]:
    """List how the probabilities of recalls by `learned` have held as they were shown."""
    from sql.similarity import ForecastGateway

    rows = ForecastGateway(workspace.connection).list_records()
    return [ForecastRecordSummary(**asdict(row)) for row in rows]


def build_report(
    corpus: "JudgedCorpus",
    gains: "Callable[[CandidateSet], Gains]",
    known_after: timedelta | None,
    *,
    leave_one_out: bool,
    track: Track,
) -> "EvaluationReport":
    """The report about one corpus."""
    from moirae.feedback import EvaluationReport, build_training_cases
    from recall.relevance import evaluate, measure_forecasts, measure_reliability
    from recall.relevance.rankers import (
        BASELINES,
        FrequencyRanker,
        LearnedRanker,
        Ranker,
        make_learned_ranker,
        rank_by,
    )
    from recall.similarity.measures import LEARNED_MEASURE, MEASURES

    def with_progress(queries: "Iterable[CandidateSet]") -> "Iterable[CandidateSet]":
        return track(queries, len(corpus.alerts), f"evaluating {corpus.name}")

    rankers: dict[str, Ranker] = {name: rank_by(value) for name, value in MEASURES.items()}
    resolutions = corpus.resolutions(known_after)
    learned = make_learned_ranker(corpus.alerts, resolutions, corpus.gap_micros, leave_one_out)
    if resolutions:
        rankers[LEARNED_MEASURE] = learned
        rankers["frequencies"] = FrequencyRanker(learned.candidate_tags)
    episodes = corpus.number_episodes()
    evaluation = evaluate(
        corpus.alerts,
        gains,
        rankers | BASELINES,
        corpus.gap,
        leave_one_out,
        with_progress,
        learned.resolution_count,
    )
    evaluation.episodes = episodes
    reliability = forecasts = None
    # Probabilities are learned in the order of time, which leave-one-out does not have.
    if not leave_one_out:
        if corpus.measure != LEARNED_MEASURE:
            reliability = measure_reliability(build_training_cases(corpus))
        ranker = LearnedRanker(corpus.alerts, resolutions, corpus.gap_micros)
        forecasts = measure_forecasts(corpus.alerts, ranker, corpus.kinds, episodes)
    return EvaluationReport(
        corpus.name, evaluation, corpus.measure, reliability, forecasts, leave_one_out
    )


def summarize(report: "EvaluationReport") -> EvaluationSummary:
    """The figures and tables of a report."""
    if not report.query_count:
        return EvaluationSummary(report.to_json(), [], [], [], [], [], [], [])
    period_columns, period_rows = report.period_rows()
    stage_columns: Sequence[str] = []
    stage_rows: Sequence[Sequence[str]] = []
    if report.evaluation.resolutions:
        stage_columns, stage_rows = report.stage_rows()
    return EvaluationSummary(
        report.to_json(),
        report.ranker_rows(),
        period_columns,
        period_rows,
        stage_columns,
        stage_rows,
        report.forecast_rows(),
        report.reliability_rows(),
    )


def check_measure(name: str) -> str:
    """The name of a similarity measure. Raises `UsageError` for another one."""
    from recall.similarity.measures import LEARNED_MEASURE, MEASURES

    if name != LEARNED_MEASURE and name not in MEASURES:
        choices = ", ".join(sorted([*MEASURES, LEARNED_MEASURE]))
        raise UsageError(f"--measure: unknown measure {name!r}: must be one of {choices}")
    return name
