"""`moirae similarity eval`, `agree` and `disagree`: evaluate and judge similar past events."""

import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    expand_option_groups,
    open_workspace,
    print_json,
    print_table,
)
from moirae.cli.similarity import (
    GapOption,
    GroupsOption,
    LeaveOneOutOption,
    load_alerts,
    parse_gap,
    parse_measure,
    parse_span,
    show_progress,
)
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport, JudgedCorpus
    from recall.relevance import CandidateSet, ForecastReliability, Gains, Ranker, Reliability

_HELP_EVENTS = (
    "File of events with contexts, as for `similarity run`. Default: events of the workspace."
)
_HELP_LABELS = "CSV with event_id and label: events with the same label are relevant to each other."
_HELP_JUDGEMENTS = "CSV with query and relevant_events (event:gain, separated by spaces)."
_HELP_MEASURE = "Measure whose probabilities are tested. Default: the rule's measure, or tfidf."
_HELP_KNOWN_AFTER = (
    "Treat each tag as known this long after its event. Default: when the tag was recorded, or one "
    "--gap after the event for --labels."
)
_HELP_PICTURE = "Write a chart: .png, .svg or .pdf. Needs matplotlib."
_PICTURE_SUFFIXES = (".png", ".svg", ".pdf")

JudgedEventArgument = Annotated[
    str, typer.Argument(metavar="ID", help="New event or its alert, or a unique prefix of an ID.")
]
PastEventArgument = Annotated[
    str, typer.Argument(metavar="PAST_ID", help="Past event, as `moirae similar` shows it.")
]


@dataclass(frozen=True)
class EvaluatedEvents:
    """The options that describe a file of events. By default there is none."""

    events: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_EVENTS)
    ] = None
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_LABELS)
    ] = None
    judgements: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help=_HELP_JUDGEMENTS),
    ] = None
    groups: GroupsOption = None
    gap: GapOption = "0s"
    leave_one_out: LeaveOneOutOption = False


@expand_option_groups
def evaluate(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    source: EvaluatedEvents = EvaluatedEvents(),
    measure: Annotated[str | None, typer.Option(help=_HELP_MEASURE)] = None,
    known_after: Annotated[
        str | None, typer.Option(metavar="DURATION", help=_HELP_KNOWN_AFTER)
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=_HELP_PICTURE, dir_okay=False),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Evaluate the ranking of similar past events, event by event in order of time.

    Relevance comes from the tags of resolutions (`alerts resolve --tag`) and from judgements
    (`similarity agree|disagree`). Each measure is compared with simple baselines.
    """
    known_delay = None if known_after is None else parse_span(known_after, "--known-after")
    if source.events is None:
        if source != EvaluatedEvents():
            raise UsageError(
                "--labels, --judgements, --groups, --gap and --leave-one-out require --events"
            )
        reports = list(_evaluate_workspace(workspace, rule, measure, known_delay))
    else:
        reports = [_evaluate_file(source, source.events, measure or "tfidf", known_delay)]
    if picture is not None:
        _draw_reports([report for report in reports if report.query_count], picture)
    if output is OutputFormat.JSON:
        print_json([report.to_json() for report in reports])
        return
    for report in reports:
        _print_report(report)


def ask(
    rule: RuleOption = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of alerts.")] = 10,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the unresolved past alerts from whose resolution most would be learned.

    These are the alerts whose resolution is most uncertain and that are recalled most often.
    Resolve them with `moirae alerts resolve ALERT --tag TAG`.
    """
    from moirae.feedback import list_unresolved

    with open_workspace(workspace) as (_, connection):
        alerts = list_unresolved(connection, rule, limit)
    if output is OutputFormat.JSON:
        print_json([{**vars(alert), "benefit": alert.benefit} for alert in alerts])
        return
    rows = []
    for alert in alerts:
        expected = "" if alert.tag is None else f"{alert.tag} {alert.probability:.2f}"
        rows.append((alert.alert, alert.rule, alert.ts, alert.key, alert.recalled, expected))
    columns = ("alert", "rule", "time", "key", "recalled", "probable resolution")
    print_table(columns, rows, "no unresolved past alerts")


def agree(
    eid: JudgedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Judge a past event as relevant to an event."""
    _record_judgement(workspace, eid, past, relevant=True, author=author)


def disagree(
    eid: JudgedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Judge a past event as not relevant to an event."""
    _record_judgement(workspace, eid, past, relevant=False, author=author)


def _record_judgement(
    workspace: Path, eid: str, past_eid: str, *, relevant: bool, author: str | None
) -> None:
    from moirae.alerts import find_event
    from moirae.feedback import Judgement, record_judgement

    with open_workspace(workspace) as (_, connection):
        judgement = Judgement(
            find_event(connection, eid),
            find_event(connection, past_eid),
            relevant,
            author or getpass.getuser(),
        )
        record_judgement(connection, judgement)
    verdict = "relevant" if relevant else "not relevant"
    print(f"recorded: {judgement.past_eid} is {verdict} to {judgement.eid}")


def _evaluate_workspace(
    workspace: Path, rule: str | None, measure: str | None, known_after: timedelta | None
) -> "Iterator[EvaluationReport]":
    from moirae.feedback import load_judged_corpora

    with open_workspace(workspace) as (settings, connection):
        storage = open_storage(settings)
        corpora = [judged.corpus for judged in load_judged_corpora(connection, storage, rule)]
    if not corpora:
        if rule is not None:
            raise UsageError(f"no applied rule {rule!r} has a similarity recall")
        raise UsageError("no applied rule has a similarity recall")
    for corpus in corpora:
        if measure is not None:
            corpus = replace(corpus, measure=parse_measure(measure))
        yield _build_report(corpus, corpus.gains_of, known_after, leave_one_out=False)


def _evaluate_file(
    source: EvaluatedEvents, events: Path, measure: str, known_after: timedelta | None
) -> "EvaluationReport":
    from moirae.feedback import JudgedCorpus, read_labels

    if (source.labels is None) == (source.judgements is None):
        raise UsageError("--events requires either --labels or --judgements")
    kinds: Mapping[str, str] = {}
    if source.labels is not None:
        kinds = read_labels(source.labels)
    corpus = JudgedCorpus(
        events.name,
        load_alerts(events, source.groups),
        kinds,
        gap=parse_gap(source.gap),
        measure=parse_measure(measure),
    )
    gains: Callable[[CandidateSet], Gains] = corpus.gains_of
    if source.judgements is not None:
        gains = _read_gains(source.judgements, events, corpus)
    return _build_report(corpus, gains, known_after, leave_one_out=source.leave_one_out)


def _read_gains(
    judgements: Path, events: Path, corpus: "JudgedCorpus"
) -> "Callable[[CandidateSet], Gains]":
    """The gains of candidates by a file of judgements. Raises `MoiraeError` for unknown queries."""
    from moirae.feedback import read_judgements

    gains_by_query = read_judgements(judgements)
    unknown_queries = gains_by_query.keys() - {alert.event_id for alert in corpus.alerts}
    if unknown_queries:
        raise MoiraeError(
            f"{judgements}: query {min(unknown_queries)!r} is not an event of {events}"
        )
    return lambda candidates: gains_by_query.get(candidates.alert.event_id, {})


def _build_report(
    corpus: "JudgedCorpus",
    gains: "Callable[[CandidateSet], Gains]",
    known_after: timedelta | None,
    *,
    leave_one_out: bool,
) -> "EvaluationReport":
    from moirae.feedback import EvaluationReport, build_training_cases
    from recall.relevance import (
        BASELINES,
        LearnedRanker,
        evaluate,
        make_learned_ranker,
        measure_forecasts,
        measure_reliability,
        rank_by,
    )
    from recall.similarity import LEARNED_MEASURE, MEASURES

    def with_progress(queries: "Iterable[CandidateSet]") -> "Iterable[CandidateSet]":
        return show_progress(queries, len(corpus.alerts), f"evaluating {corpus.name}")

    rankers: dict[str, Ranker] = {name: rank_by(value) for name, value in MEASURES.items()}
    resolutions = corpus.resolutions(known_after)
    learned = make_learned_ranker(corpus.alerts, resolutions, corpus.gap_micros, leave_one_out)
    if resolutions:
        rankers[LEARNED_MEASURE] = learned
    evaluation = evaluate(
        corpus.alerts,
        gains,
        rankers | BASELINES,
        corpus.gap,
        leave_one_out,
        with_progress,
        learned.resolution_count,
    )
    reliability = forecasts = None
    # Probabilities are learned in the order of time, which leave-one-out does not have.
    if not leave_one_out:
        if corpus.measure != LEARNED_MEASURE:
            reliability = measure_reliability(build_training_cases(corpus))
        ranker = LearnedRanker(corpus.alerts, resolutions, corpus.gap_micros)
        forecasts = measure_forecasts(corpus.alerts, ranker, corpus.kinds)
    return EvaluationReport(corpus.name, evaluation, corpus.measure, reliability, forecasts)


def _print_report(report: "EvaluationReport") -> None:
    from moirae.feedback import METRIC_TITLES

    if not report.query_count:
        print(
            f"{report.name}: nothing to evaluate: no event has a relevant past event. Record tags "
            "(moirae alerts resolve --tag) or judgements (moirae similarity agree|disagree)."
        )
        return
    print(f"{report.name}: {report.query_count} judged events; means with 95 % intervals")
    print_table(["", *METRIC_TITLES.values()], report.ranker_rows(), "")
    print("\nP@10 over time")
    print_table(*report.period_rows(), "")
    if report.evaluation.resolutions:
        print("\nP@10 by the number of known tags")
        print_table(*report.stage_rows(), "")
    if report.forecasts is not None:
        print(f"\n{_describe_forecasts(report.forecasts)}")
        print_table(["predicted", "events", "observed"], report.forecast_rows(), "")
    if report.measure == "learned":
        print()
        return
    if report.reliability is None:
        print(f"\nToo few judged events to learn probabilities ({report.measure}).\n")
        return
    print(f"\n{_describe_reliability(report.measure, report.reliability)}")
    columns = ["predicted", "events", "mean predicted", "observed"]
    print_table(columns, report.reliability_rows(), "")
    print()


def _describe_reliability(measure: str, reliability: "Reliability") -> str:
    return (
        f"Probability that the best hit is relevant ({measure}): learned from "
        f"{reliability.training_cases} events, tested on {reliability.test_cases} later events; "
        f"Brier score {reliability.brier_score:.3f} (of the mean: "
        f"{reliability.baseline_brier_score:.3f})"
    )


def _describe_forecasts(forecasts: "ForecastReliability") -> str:
    return (
        f"Most probable resolution (learned), {forecasts.queries} events after the first 500 "
        f"resolutions: right in {forecasts.accuracy:.0%}; expected calibration error "
        f"{forecasts.calibration_error:.3f}; log loss {forecasts.log_loss:.3f} (past frequencies: "
        f"{forecasts.frequency_log_loss:.3f}, ten most similar by tfidf: "
        f"{forecasts.vote_log_loss:.3f})"
    )


def _draw_reports(reports: "list[EvaluationReport]", picture: Path) -> None:
    from moirae.feedback import draw_reports

    if picture.suffix not in _PICTURE_SUFFIXES:
        raise UsageError(f"--picture {picture}: the name must end in .png, .svg or .pdf")
    if not reports:
        raise MoiraeError("nothing to draw: there are no judged events")
    try:
        draw_reports(reports, picture)
    except OSError as error:
        raise MoiraeError(f"{picture}: {error.strerror}") from error
