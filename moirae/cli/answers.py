"""Answers of recalls, drawn on a terminal."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from moirae.cli.options import cut_text, escape_control, format_cell, format_time, make_console

if TYPE_CHECKING:
    from moirae.inspect.past_events import RecallAnswer, SimilarEvent

_ANSWER_WIDTH = 160  # characters of a line when standard output is not a terminal
_MAX_ROWS = 20  # of an SQL answer
_MAX_COLUMNS = 10  # of a table; rows with more are shown with a line for each column
_MAX_TERMS = 5  # shared terms of a past event
_MAX_TERM = 200  # characters
_MAX_SUMMARY = 1000  # characters
_ALERT_PREFIX = 8  # characters of an alert ID, enough for `alerts resolve` and `similar`
_OPEN_STATES = ("waiting", "running", "suspended")
# Below this probability that the best hit is of the same kind, a hint is shown.
_COMPARABLE_THRESHOLD = 0.25
_NOTE_LABELS = {"ack": "acknowledged by", "note": "note", "resolution": "resolution"}
_NOTE_STYLES = {"resolution": "green"}


def print_answers(answers: Sequence["RecallAnswer"]) -> None:
    """Print answers, each with its coverage."""
    make_console(_ANSWER_WIDTH).print(render_answers(answers))


def render_answers(answers: Sequence["RecallAnswer"]) -> RenderableType:
    """Answers one below the other."""
    if not answers:
        return Text("no recalls yet")
    return Group(*map(render_answer, answers))


def render_answer(answer: "RecallAnswer") -> RenderableType:
    """An answer below the name of its recall and its coverage."""
    heading = Text.assemble((f"{answer.recall}  ", "bold"), (_describe_state(answer), "dim"))
    parts: list[RenderableType] = [heading]
    if answer.forecast is not None:
        parts.append(_render_forecast(answer.forecast))
    elif answer.hits is not None and answer.match is not None:
        parts.append(_render_match(answer.match))
    elif answer.hits is not None and answer.comparable is not None:
        parts.append(_render_comparable(answer.comparable))
    if answer.candidates is not None:
        parts.append(
            Text(
                f"  ranked among {answer.candidates} candidates; an unread chunk can change the "
                "answer if it can hold another one",
                "dim",
            )
        )
    parts.append(_render_result(answer))
    if answer.error is not None:
        label = "last query failed" if answer.state in _OPEN_STATES else "failed"
        parts.append(Text(f"  {label}: {escape_control(answer.error)}", "red"))
    return Group(*parts, Text(""))


def _describe_state(answer: "RecallAnswer") -> str:
    from moirae.inspect.past_events import describe_coverage

    if answer.kind == "stage":
        return f"stage, revision {answer.number}, {answer.state}"
    if answer.coverage is None:
        return answer.state
    return f"revision {answer.number}, {answer.state}: {describe_coverage(answer.coverage)}"


def _render_result(answer: "RecallAnswer") -> RenderableType:
    if answer.hits is not None:
        return render_hits(answer.hits)
    if answer.rows is not None:
        estimates: list[dict[str, Any]] = []
        # Estimates of a complete answer are its values.
        if answer.coverage is not None and answer.coverage["partial"]:
            estimates = answer.estimates or []
        return _render_rows(answer.rows, estimates)
    if answer.state in _OPEN_STATES:
        return Text("  no answer yet")
    return Text("  no answer")


def _render_forecast(forecast: Mapping[str, Any]) -> Text:
    """The most probable resolutions, and the probability of none of these."""
    label = "  probable resolution: ", "dim"
    if forecast.get("withheld"):
        text = f"too few to say ({forecast['episodes']} episodes of known resolution)"
        return Text.assemble(label, text)
    parts = []
    intervals = forecast.get("intervals", ())
    for (tag, probability), interval in zip_longest(forecast["tags"], intervals):
        parts.append(f"{escape_control(tag)} {_format_share(probability, interval)}")
    if forecast["new_tag"] is not None:
        interval = forecast.get("new_tag_interval")
        parts.append(f"none of these {_format_share(forecast['new_tag'], interval)}")
    shares = Text.assemble(label, ", ".join(parts))
    for tag, record in forecast.get("records", {}).items():
        shares.append(f"\n    {escape_control(tag)}: {escape_control(record)}", "dim")
    if forecast.get("reason"):
        shares.append(f"\n  {escape_control(forecast['reason'])}", "yellow")
    return shares


def _format_share(probability: float, interval: Sequence[float] | None) -> str:
    """`0.72 (0.55–0.84)`."""
    if interval is None:
        return f"{probability:.2f}"
    return f"{probability:.2f} ({interval[0]:.2f}–{interval[1]:.2f})"


def _render_match(match: Mapping[str, Any]) -> Text:
    """How probable it is that the best hit is of the same kind, and that nothing is."""
    if match["withheld"]:
        return Text(
            "  how probable a match is: too few to say "
            f"({match['episodes']} episodes of known resolution)",
            "dim",
        )
    shares = []
    if match["probability"] is not None:
        share = _format_share(match["probability"], match["interval"])
        shares.append(f"best hit is of the same kind {share}")
    nothing = _format_share(match["nothing_comparable"], match["nothing_comparable_interval"])
    shares.append(f"nothing comparable {nothing}")
    return Text(f"  {', '.join(shares)}")


def _render_comparable(probability: float) -> Text:
    """The calibrated probability that the best hit is of the same kind."""
    if probability < _COMPARABLE_THRESHOLD:
        return Text(
            "  probably no comparable event: the best hit is of the same kind in "
            f"{probability:.0%} of such cases"
        )
    return Text(f"  the best hit is of the same kind in {probability:.0%} of such cases", "dim")


def render_hits(similar_events: Iterable["SimilarEvent"]) -> RenderableType:
    """Past events by rank, each with the terms it shares and the notes of its alert."""
    lines: list[Text] = []
    for event in similar_events:
        lines += _render_hit(event)
    if not lines:
        return Text("  no similar event so far")
    return Group(*lines)


def _render_hit(event: "SimilarEvent") -> Iterator[Text]:
    past: Mapping[str, Any] = event.past or {}
    summary = (past.get("annotations") or {}).get("summary") or format_cell(past.get("key") or {})
    time = f"{format_time(event.ts)}  "
    if past.get("alert"):
        time = f"{str(past['alert'])[:_ALERT_PREFIX]}  {time}"
    yield Text.assemble(
        (f"  {event.rank:>2}. {event.score:.3f} ", "bold cyan"),
        (time, "dim"),
        cut_text(escape_control(summary), _MAX_SUMMARY),
        (_format_outcome(past), "dim"),
    )
    shared = [
        f"{cut_text(escape_control(term), _MAX_TERM)} {share:.0%}"
        for term, share in event.shared[:_MAX_TERMS]
    ]
    yield Text.assemble(("      shares ", "dim"), ", ".join(shared))
    for reason in event.reasons:
        yield Text(f"      {escape_control(reason)}")
    if event.parts is not None:
        yield _render_parts(event)
    for note in _select_notes(past.get("notes", ())):
        yield _render_note(note)
    if event.judgements:
        yield Text.assemble(("      judged ", "dim"), _describe_judgements(event.judgements))


def _describe_judgements(judgements: Sequence[Mapping[str, Any]]) -> str:
    """Who agrees and who disagrees that a past event is relevant."""
    opinions = []
    for judgement in judgements:
        verb = "agrees" if judgement["helps"] else "disagrees"
        opinions.append(f"{escape_control(judgement['author'])} {verb}")
    text = ", ".join(opinions)
    if len({judgement["helps"] for judgement in judgements}) > 1:
        text += "; nothing is learned from it, as opinions differ"
    return text


def _render_parts(event: "SimilarEvent") -> Text:
    """What the rank of a past event consists of, by the measure `learned`."""
    assert event.parts is not None
    names = {"terms": "shared terms", "resolution": "resolution", "place_and_age": "place and age"}
    parts = [f"{name} {event.parts[part]:+.1f}" for part, name in names.items()]
    line = Text.assemble(("      rank from ", "dim"), ", ".join(parts))
    if event.tag_terms:
        terms = ", ".join(escape_control(term) for term, _ in event.tag_terms)
        line.append(f"; for its resolution: {terms}", "dim")
    return line


def _select_notes(notes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The last acknowledgement, the last note and the last resolution."""
    last_notes: dict[str, Mapping[str, Any]] = {}
    for note in notes:
        last_notes[note["kind"]] = note
    for kind in _NOTE_LABELS:
        if kind in last_notes:
            yield last_notes[kind]


def _render_note(note: Mapping[str, Any]) -> Text:
    kind = note["kind"]
    line = Text.assemble((f"      {_NOTE_LABELS[kind]} ", "dim"))
    if kind == "ack":
        line.append(f"{escape_control(note['author'])}: ")
    line.append(escape_control(note["text"]), _NOTE_STYLES.get(kind))
    if note["tag"]:
        line.append(f" [{escape_control(note['tag'])}]")
    if note.get("superseded_by"):  # a server of an earlier version has none
        line.append(f" superseded by {escape_control(note['superseded_by'])}")
    elif note.get("effect"):
        line.append(f" {note['effect']}")
    if note.get("link"):
        line.append(f" {escape_control(note['link'])}")
    return line


def _format_outcome(past: Mapping[str, Any]) -> str:
    """How long the alert of a past event lasted, and how often it recurred."""
    if not past or past.get("starts_at") is None:
        return ""
    end = past["ends_at"] or past["last_at"]
    minutes = (end - past["starts_at"]).total_seconds() / 60
    outcome = f"  lasted {minutes:.0f} min"
    if past["again"] == 1:
        outcome += ", recurred once within a week"
    elif past["again"]:
        outcome += f", recurred {past['again']} times within a week"
    return outcome


def _render_rows(rows: list[dict[str, Any]], estimates: list[dict[str, Any]]) -> RenderableType:
    """The rows of an answer, each above the estimates for the whole range of the recall."""
    if not rows:
        return Text("  no rows so far")
    if len(rows[0]) > _MAX_COLUMNS:
        shown_rows = zip_longest(rows[:_MAX_ROWS], estimates[: len(rows[:_MAX_ROWS])])
        return Group(*itertools.starmap(_render_long_row, shown_rows), *_render_rest(rows))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for name in rows[0]:
        table.add_column(f"  {name}")
    shown = rows[:_MAX_ROWS]
    for row, estimate in zip_longest(shown, estimates[: len(shown)]):
        table.add_row(*[f"  {_format_value(value)}" for value in row.values()])
        if estimate is not None:
            cells = [f"  {_format_estimate(estimate.get(name))}" for name in row]
            table.add_row(*cells, style="dim")
    return Group(table, *_render_rest(rows))


def _render_rest(rows: Sequence[Any]) -> Iterator[Text]:
    if len(rows) > _MAX_ROWS:
        yield Text(f"  … and {len(rows) - _MAX_ROWS:,} more (use -o json)", "dim")


def _render_long_row(row: Mapping[str, Any], estimate: Mapping[str, Any] | None) -> Table:
    """A row of many columns, each with its name and estimate; the sentence of a norm comes first."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2))
    for name in sorted(row, key=lambda name: name != "says"):
        value = _format_estimate((estimate or {}).get(name))
        table.add_row(Text(f"  {name}", "dim"), _format_value(row[name]), Text(value, "dim"))
    return table


def _format_estimate(estimate: Mapping[str, Any] | None) -> str:
    """An estimate with its confidence interval: ≈ 12 [10, 14]; an open side is left empty."""
    if estimate is None or estimate["value"] is None:
        return ""
    text = f"≈ {_format_value(estimate['value'])}"
    if estimate["low"] is None and estimate["high"] is None:
        return text
    return f"{text} [{_format_bound(estimate['low'])}, {_format_bound(estimate['high'])}]"


def _format_bound(bound: Any) -> str:
    return "" if bound is None else _format_value(bound)


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return format_cell(value)
