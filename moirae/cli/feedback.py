"""`moirae similarity eval`, `ask`, `agree`, `disagree`, `withdraw`: evaluate and judge past events."""

import sys
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    expand_option_groups,
    print_json,
    print_table,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import open_remote, open_services, uses_server
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

if TYPE_CHECKING:
    from moirae.feedback import EvaluationReport
    from moirae.services.operations.similarity import EvaluationQuery, EvaluationSummary
    from recall.relevance import Gains
    from recall.relevance.rankers import CandidateSet

_HELP_EVENTS = (
    "File of events with contexts, as for `similarity run`. Default: events of the workspace."
)
_HELP_LABELS = "CSV with event_id and label: events with the same label are relevant to each other."
_HELP_JUDGEMENTS = "CSV with query and relevant_events (event:gain, separated by spaces)."
_HELP_MEASURE = (
    "Measure whose match probabilities are evaluated. Default: the rule's measure, or tfidf."
)
_HELP_KNOWN_AFTER = (
    "Treat each tag as known this long after its event. Default: when the tag was recorded, or one "
    "--gap after the event for --labels."
)
_HELP_PICTURE = "Write a chart: .png, .svg or .pdf. Requires matplotlib."
# Some IDs of labels or judgements are of no event.
_EXIT_UNKNOWN_IDS = 3
_MAX_UNKNOWN_IDS = 5  # that are named
_OUTCOMES = {"match": "best hit relevant", "nothing_comparable": "nothing comparable"}
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
    from moirae.services.operations.similarity import EvaluationQuery, summarize

    if uses_server() and (source != EvaluatedEvents() or picture is not None):
        raise UsageError("--events and --picture cannot be used with --server")
    known_delay = None if known_after is None else parse_span(known_after, "--known-after")
    unknown = _UnknownEvents()
    reports: list[EvaluationReport] = []
    summaries: list[EvaluationSummary] = []
    if source.events is not None:
        reports = [_evaluate_file(source, source.events, measure or "tfidf", known_delay, unknown)]
    elif source != EvaluatedEvents():
        raise UsageError(
            "--labels, --judgements, --groups, --gap and --leave-one-out require --events"
        )
    else:
        seconds = None if known_delay is None else known_delay.total_seconds()
        query = make_query(EvaluationQuery, rule=rule, measure=measure, known_after=seconds)
        reports, summaries = _evaluate_workspace(workspace, query)
    if picture is not None:
        _draw_reports([report for report in reports if report.query_count], picture)
    summaries = [*summaries, *map(summarize, reports)]
    if output is OutputFormat.JSON:
        print_json([summary.report for summary in summaries])
    else:
        for summary in summaries:
            _print_report(summary)
    if unknown.count:
        raise typer.Exit(_EXIT_UNKNOWN_IDS)


def ask(
    rule: RuleOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of alerts.")] = 10,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the unresolved past alerts whose resolution would improve `learned` most.

    Their predicted resolution is uncertain, and they are often recalled. Resolve them with
    `moirae alerts resolve ALERT --tag TAG`.
    """
    from moirae.services.operations.similarity import UnresolvedQuery, list_unresolved

    query = make_query(UnresolvedQuery, rule=rule, limit=limit)
    with open_services(workspace) as services:
        alerts = list_unresolved(services, query)
    if output is OutputFormat.JSON:
        print_json([vars(alert) for alert in alerts])
        return
    rows = []
    for alert in alerts:
        expected = "" if alert.tag is None else f"{alert.tag} {alert.probability:.2f}"
        rows.append((alert.ts, alert.rule, alert.key, alert.recalled, expected, alert.alert))
    columns = ("time", "rule", "key", "found by recalls", "probable resolution", "alert")
    print_table(columns, rows, "no unresolved past alerts")


def agree(
    eid: JudgedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Mark a past event as relevant to an event."""
    _record_judgement(workspace, eid, past, relevant=True, author=author)


def disagree(
    eid: JudgedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Mark a past event as not relevant to an event."""
    _record_judgement(workspace, eid, past, relevant=False, author=author)


def withdraw(
    eid: JudgedEventArgument,
    past: PastEventArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Withdraw your own judgement of a past event. Those of other people remain."""
    from moirae.services.operations.events import WithdrawalBody, withdraw_judgement

    with open_services(workspace) as services:
        judged = withdraw_judgement(
            services.with_author(author), eid, make_query(WithdrawalBody, past=past)
        )
    print(f"withdrawn: judgement of {judged.past_eid} for {judged.eid}")


def _record_judgement(
    workspace: Path, eid: str, past_eid: str, *, relevant: bool, author: str | None
) -> None:
    from moirae.services.operations.events import JudgementBody, judge

    body = make_query(JudgementBody, past=past_eid, helps=relevant)
    with open_services(workspace) as services:
        judgement = judge(services.with_author(author), eid, body)
    verdict = "relevant" if relevant else "not relevant"
    print(f"recorded: {judgement.past_eid} is {verdict} to {judgement.eid}")


def _evaluate_workspace(
    workspace: Path, query: "EvaluationQuery"
) -> "tuple[list[EvaluationReport], list[EvaluationSummary]]":
    """The reports of this machine's workspace, or the summaries of a server."""
    from moirae.services import LocalWorkspace
    from moirae.services.operations import similarity

    with open_remote() as server:
        if server is not None:
            return [], similarity.evaluate(server, query)
    with open_services(workspace) as services:
        assert isinstance(services, LocalWorkspace)
        return list(similarity.evaluate_workspace(services, query, show_progress)), []


def _evaluate_file(
    source: EvaluatedEvents,
    events: Path,
    measure: str,
    known_after: timedelta | None,
    unknown: "_UnknownEvents",
) -> "EvaluationReport":
    from moirae.feedback import JudgedCorpus, read_labels
    from moirae.services.operations.similarity import build_report

    if (source.labels is None) == (source.judgements is None):
        raise UsageError("--events requires either --labels or --judgements")
    alerts = load_alerts(events, source.groups)
    known_ids = {alert.event_id for alert in alerts}
    kinds: Mapping[str, str] = {}
    if source.labels is not None:
        kinds = read_labels(source.labels)
        if not kinds:
            raise MoiraeError(f"{source.labels}: no event has a label")
        unknown.add(source.labels, events, kinds, known_ids)
    corpus = JudgedCorpus(
        events.name,
        alerts,
        kinds,
        gap=parse_gap(source.gap),
        measure=parse_measure(measure),
    )
    gains: Callable[[CandidateSet], Gains] = corpus.gains_of
    judged = None
    if source.judgements is not None:
        gains = judged = _JudgedGains(_read_gains(source.judgements, events, known_ids, unknown))
    report = build_report(
        corpus, gains, known_after, leave_one_out=source.leave_one_out, track=show_progress
    )
    if source.judgements is not None and judged is not None:
        unknown.add_not_compared(source.judgements, judged.not_compared)
    return report


def _read_gains(
    judgements: Path, events: Path, known_ids: Set[str], unknown: "_UnknownEvents"
) -> "Mapping[str, Gains]":
    """The gains of past events by a file of judgements, by query."""
    from moirae.feedback import read_judgements

    gains_by_query = read_judgements(judgements)
    judged_ids = {*gains_by_query, *chain.from_iterable(gains_by_query.values())}
    if not gains_by_query:
        raise MoiraeError(f"{judgements}: no query has a relevant event")
    unknown.add(judgements, events, judged_ids, known_ids)
    return {
        query: {past: gain for past, gain in gains.items() if past in known_ids}
        for query, gains in gains_by_query.items()
    }


class _JudgedGains:
    """The gains of the candidates of an event, by a file of judgements."""

    def __init__(self, gains_by_query: "Mapping[str, Gains]") -> None:
        self._gains_by_query = gains_by_query
        self.not_compared: dict[str, None] = {}
        """Judged pairs whose past event is no candidate, as text, in time order."""

    def __call__(self, candidates: "CandidateSet") -> "Gains":
        query = candidates.alert.event_id
        judged = self._gains_by_query.get(query)
        if judged is None:
            return {}
        excluded_rows = set(candidates.excluded_rows)
        gains = {}
        for row, past in enumerate(candidates.candidates):
            if past.event_id in judged and row not in excluded_rows and past.event_id != query:
                gains[past.event_id] = judged[past.event_id]
        self.not_compared.update({f"{query} {past}": None for past in judged if past not in gains})
        return gains


class _UnknownEvents:
    """IDs of labels and judgements that no event has, or that are not compared."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, path: Path, events: Path, ids: Collection[str], known_ids: Set[str]) -> None:
        """Report unknown IDs of a file on standard error. Raises `MoiraeError` if no ID is known."""
        unknown_ids = sorted(set(ids) - known_ids)
        if not unknown_ids:
            return
        examples = ", ".join(map(repr, unknown_ids[:_MAX_UNKNOWN_IDS]))
        if len(unknown_ids) > _MAX_UNKNOWN_IDS:
            examples += ", …"
        if len(unknown_ids) == len(set(ids)):
            raise MoiraeError(f"{path}: no ID is that of an event of {events}: {examples}")
        self.count += len(unknown_ids)
        print(
            f"{path}: {len(unknown_ids)} of {len(set(ids))} IDs are of no event of {events} and are "
            f"left out: {examples}",
            file=sys.stderr,
        )

    def add_not_compared(self, path: Path, pairs: Collection[str]) -> None:
        """Report judged pairs that are not compared on standard error."""
        if not pairs:
            return
        self.count += len(pairs)
        examples = ", ".join(map(repr, list(pairs)[:_MAX_UNKNOWN_IDS]))
        print(
            f"{path}: {len(pairs)} judged pairs are left out, as the event is not compared with the "
            f"past one (newer, within --gap, of its group or of another type): {examples}",
            file=sys.stderr,
        )


def _print_report(summary: "EvaluationSummary") -> None:
    from moirae.feedback import METRIC_TITLES

    report = summary.report
    if not report["queries"]:
        print(
            f"{report['name']}: nothing to evaluate: no event has a relevant past event. Record "
            "tags (moirae alerts resolve --tag) or judgements (moirae similarity agree|disagree)."
        )
        return
    print(
        f"{report['name']}: {report['queries']} judged events of {report['episodes']} episodes, "
        f"{report['candidates']:g} candidates in the median; means with 95 % intervals over episodes"
    )
    print_table(["", *METRIC_TITLES.values()], summary.ranker_rows, "")
    print("\nP@10 over time")
    print_table(summary.period_columns, summary.period_rows, "")
    if summary.stage_rows:
        print("\nP@10 by the number of known tags")
        print_table(summary.stage_columns, summary.stage_rows, "")
    if report["forecasts"] is not None:
        print(f"\n{_describe_forecasts(report['forecasts'])}")
        print_table(["predicted", "events", "observed"], summary.forecast_rows, "")
    if report["reliability"] is not None:
        print(f"\nProbabilities of a match ({report['measure']}), by episode")
        for name, title in _OUTCOMES.items():
            if report["reliability"][name] is not None:
                print(_describe_reliability(title, report["reliability"][name]))
        columns = ["outcome", "predicted", "episodes", "mean predicted", "observed"]
        print_table(columns, summary.reliability_rows, "")
    for warning in report["warnings"]:
        print(f"\n{warning}")
    print()


def _describe_reliability(title: str, reliability: Mapping[str, Any]) -> str:
    return (
        f"{title}, {reliability['episodes']} episodes, {reliability['withheld_share']:.0%} "
        f"with too few before them to say: Brier score {reliability['brier_score']:.3f} (of the "
        f"past share: {reliability['baseline_brier_score']:.3f}); expected calibration error "
        f"{reliability['calibration_error']:.3f} (of a perfect model: "
        f"{reliability['perfect_calibration_error']:.3f})"
    )


def _describe_forecasts(forecasts: Mapping[str, Any]) -> str:
    return (
        f"Most probable resolution (learned), {forecasts['queries']} events of "
        f"{forecasts['episodes']} episodes: right in {forecasts['accuracy']:.0%}; expected "
        f"calibration error {forecasts['calibration_error']:.3f} (of a perfect model: "
        f"{forecasts['perfect_calibration_error']:.3f}); log loss {forecasts['log_loss']:.3f} (past "
        f"frequencies: {forecasts['frequency_log_loss']:.3f}, ten most similar by tfidf: "
        f"{forecasts['vote_log_loss']:.3f}); {forecasts['withheld_share']:.0%} without numbers, "
        "which count as frequencies"
    )


def _draw_reports(reports: "list[EvaluationReport]", picture: Path) -> None:
    from moirae.feedback import draw_reports

    if picture.suffix not in _PICTURE_SUFFIXES:
        raise UsageError(f"--picture {picture}: the name must end in .png, .svg or .pdf")
    if not reports:
        raise MoiraeError("no chart: there are no judged events")
    try:
        draw_reports(reports, picture)
    except OSError as error:
        raise MoiraeError(f"{picture}: {error.strerror}") from error
