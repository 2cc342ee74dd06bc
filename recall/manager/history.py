"""History queries: a piece of history read for some tasks, in a thread of its own."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pyarrow as pa
import structlog

from recall.engines.answers import Rows
from recall.engines.chosen import Engines
from recall.engines.template import Ask, Own, Template, merged
from recall.ledger import Revision, Step, Task
from recall.manager.desk import Work
from recall.manager.workers import Asking, words
from recall.operators.aggregates import Exceeded
from recall.operators.estimate import lengths
from recall.operators.moments import estimates
from recall.request import Asked, coverage

_LOG = structlog.get_logger()


@dataclass(frozen=True)
class Reading:
    """Tasks of one question, that read the same of history next; and the rows of the rule's own tables for them."""

    works: list[Work]
    own: Own

    @property
    def template(self) -> Template:
        """What they ask."""
        template = self.works[0].template
        assert template is not None
        return template

    @property
    def ask(self) -> Ask:
        """What is to be read for those that have not come to the end."""
        return Ask(self.template, [(work.task.asked, work.share()) for work in self.works if work.left], self.own)


def read(asking: Asking, readings: Sequence[Reading]) -> list[Step]:
    """Read the next piece of some tasks, in one scan where there are several questions. What fails is tried for each
    question by itself, then for each task."""
    began = time.monotonic()
    try:
        found, seen = _asked(asking.engines, [reading.ask for reading in readings])
    except Exception as fault:
        asking.failed(fault)
        if len(readings) == 1:
            return _read_apart(asking, readings[0], fault, began)
        return [step for reading in readings for step in read(asking, [reading])]
    each = (time.monotonic() - began) / len(readings)
    return [
        step
        for reading, partial in zip(readings, found, strict=True)
        for step in _taken_in(asking, reading, partial, seen, time.monotonic() - each)
    ]


def _taken_in(
    asking: Asking, reading: Reading, partial: Mapping[str, pa.Table], seen: dict[str, int], began: float
) -> list[Step]:
    """The tasks of one question after what was found for them."""
    works, template = reading.works, reading.template
    found = {work.task.id: partial.get(str(work.task.asked.eid)) for work in works}
    try:
        held = {w.task.id: merged(template, _loaded(w.task.held), found[w.task.id], _length(w)) for w in works}
    except Exception as fault:
        asking.failed(fault)
        return _read_apart(asking, reading, fault, began)
    steps = _steps(asking, reading, found, held, began)
    return [replace(step, appends=seen) for step in steps]


def _read_apart(asking: Asking, reading: Reading, fault: Exception, began: float) -> list[Step]:
    """Some tasks of one question, over which it fell: each by itself, with less to read, or told so."""
    works = reading.works
    if len(works) > 1:
        return [step for work in works for step in read(asking, [Reading([work], reading.own)])]
    (work,) = works
    if isinstance(fault, Exceeded):
        return [_exceeded(work.task, fault, time.monotonic() - began)]
    if work.upto > work.task.next + 1:
        work.upto = work.task.next + 1  # not all of these pieces need be at fault
        return read(asking, [reading])
    error = words(fault)
    _LOG.error("history query failed", action="piece_failed", rule=work.task.rule, error=error)
    return _steps(asking, reading, {work.task.id: None}, {work.task.id: _loaded(work.task.held)}, began, error)


def _steps(
    asking: Asking,
    reading: Reading,
    found: Mapping[UUID, pa.Table | None],
    held: Mapping[UUID, pa.Table | None],
    began: float,
    error: str | None = None,
) -> list[Step]:
    """The tasks of one question with their new partial answers, `held`; of which `found` is new."""
    works = reading.works
    due = [work for work in works if work.due(time.monotonic())]
    answers, faults = _answers(asking, reading.template, [(w.task.asked, held[w.task.id]) for w in due], reading.own)
    took = time.monotonic() - began
    steps = []
    for work in works:
        task, more = work.task, found[work.task.id]
        eid = str(task.asked.eid)
        revision = answers.get(eid, []) if work in due and eid not in faults else None
        rows = 0 if more is None else len(more)
        step = _step(work, held[task.id], rows, took / len(works), revision, error, faults.get(eid))
        steps.append(replace(step, took=took))
    return steps


def _asked(engines: Engines, asks: Sequence[Ask]) -> tuple[list[dict[str, pa.Table]], dict[str, int]]:
    """The partial answers of some events to each question, and of how many appends of each stream."""
    left = [ask for ask in asks if ask.shares]
    if not left:
        return [{} for _ in asks], {}
    with engines.looking(left) as seen:
        found = iter(engines.partials(left))
        return [next(found) if ask.shares else {} for ask in asks], seen


def _answers(
    asking: Asking, template: Template, held: Sequence[tuple[Asked, pa.Table | None]], own: Own
) -> tuple[dict[str, Rows], dict[str, str]]:
    """What the merged partial answers say, and for which events that cannot be computed, and why."""
    try:
        return (asking.engines.answer(template, held, own) if held else {}), {}
    except Exception as fault:
        asking.failed(fault)
        if len(held) == 1:
            return {}, {str(held[0][0].eid): words(fault)}
    answers: dict[str, Rows] = {}
    faults: dict[str, str] = {}
    for one in held:
        found, fault_of_one = _answers(asking, template, [one], own)
        answers |= found
        faults |= fault_of_one
    return answers, faults


def _step(
    work: Work,
    held: pa.Table | None,
    rows: int,
    seconds: float,
    answer: Rows | None,
    not_read: str | None,
    not_answered: str | None,
) -> Step:
    """The task after its next pieces. Where no piece has given anything, or the end has no answer, it has failed."""
    task, upto = work.task, work.upto
    assert task.pieces is not None and work.template is not None
    failed = task.failed + (upto - task.next if not_read is not None else 0)
    covered = coverage(task.pieces, upto, failed, task.skipped)
    error = not_read or not_answered
    if covered.final and error is not None and (answer is None or failed == len(task.pieces) - task.skipped):
        return Step(task, upto, failed, None, rows, rows, seconds, "failed", error=error)
    revision = None
    if answer is not None:
        likely = estimates(work.template.split, held, answer, sum(lengths(task.pieces)), not covered.partial)
        revision = Revision(covered, answer, likely)
    kept = None if covered.final else _dumped(held)
    ended = "done" if covered.final else "running"
    return Step(task, upto, failed, kept, rows, rows, seconds, ended, revision, error)


def _exceeded(task: Task, fault: Exceeded, seconds: float) -> Step:
    """The end of a task that holds more than it may: reading on would only add to it."""
    error = f"recall {task.recall} of rule {task.rule}: {fault}"
    _LOG.error("recall exceeds its limit", action="recall_exceeded", rule=task.rule, recall=task.recall, error=error)
    return Step(task, task.next, task.failed, None, 0, 0, seconds, "failed", error=error, exceeded=True)


def _length(work: Work) -> float:
    """Of what the query at hand reads, in seconds."""
    assert work.task.pieces is not None
    return sum(lengths(work.task.pieces)[work.task.next : work.upto])


def _loaded(held: bytes | None) -> pa.Table | None:
    return None if held is None else pa.ipc.open_stream(held).read_all()


def _dumped(held: pa.Table | None) -> bytes | None:
    if held is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, held.schema) as writer:
        writer.write_table(held)
    written: bytes = sink.getvalue().to_pybytes()
    return written
