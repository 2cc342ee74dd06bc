"""`moirae similarity eval`, `agree` and `disagree`: evaluate and judge similar past events."""

import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    show_progress,
)
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport, JudgedCorpus
    from recall.relevance import CandidateSet, Gains, Reliability

_HELP_EVENTS = (
    "File of events with contexts, as for `similarity run`. Default: events of the workspace."
)
_HELP_LABELS = "CSV with event_id and label: events with the same label are relevant to each other."
_HELP_JUDGEMENTS = "CSV with query and relevant_events (event:gain, separated by spaces)."
_HELP_MEASURE = "Measure whose probabilities are tested. Default: the rule's measure, or tfidf."
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
    if source.events is None:
        if source != EvaluatedEvents():
            raise UsageError(
                "--labels, --judgements, --groups, --gap and --leave-one-out require --events"
            )
        reports = list(_evaluate_workspace(workspace, rule, measure))
    else:
        reports = [_evaluate_file(source, source.events, measure or "tfidf")]
    if picture is not None:
        _draw_reports([report for report in reports if report.query_count], picture)
    if output is OutputFormat.JSON:
        print_json([report.to_json() for report in reports])
        return
    for report in reports:
        _print_report(report)


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
    workspace: Path, rule: str | None, measure: str | None
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
            corpus = replace(corpus, measure=parse_measure(measure).name)
        yield _build_report(corpus, corpus.gains_of, leave_one_out=False)


def _evaluate_file(source: EvaluatedEvents, events: Path, measure: str) -> "EvaluationReport":
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
        measure=parse_measure(measure).name,
    )
    gains: Callable[[CandidateSet], Gains] = corpus.gains_of
    if source.judgements is not None:
        gains = _read_gains(source.judgements, events, corpus)
    return _build_report(corpus, gains, leave_one_out=source.leave_one_out)


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
    corpus: "JudgedCorpus", gains: "Callable[[CandidateSet], Gains]", *, leave_one_out: bool
) -> "EvaluationReport":
    from moirae.feedback import EvaluationReport, build_training_cases
    from recall.relevance import BASELINES, evaluate, measure_reliability, rank_by
    from recall.similarity import MEASURES

    def with_progress(queries: "Iterable[CandidateSet]") -> "Iterable[CandidateSet]":
        return show_progress(queries, len(corpus.alerts), f"evaluating {corpus.name}")

    rankers = {name: rank_by(measure) for name, measure in MEASURES.items()} | BASELINES
    evaluation = evaluate(corpus.alerts, gains, rankers, corpus.gap, leave_one_out, with_progress)
    reliability = None
    # Probabilities are learned in the order of time, which leave-one-out does not have.
    if not leave_one_out:
        reliability = measure_reliability(build_training_cases(corpus))
    return EvaluationReport(corpus.name, evaluation, corpus.measure, reliability)


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
